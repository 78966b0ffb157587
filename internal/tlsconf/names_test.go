package tlsconf

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/internal/tlsconf/tlstest"
)

// part is one part of a name.
func part(attributes ...pkix.AttributeTypeAndValue) pkix.RelativeDistinguishedNameSET {
	return attributes
}

func attr(value any, oid ...int) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: oid, Value: value}
}

func raw(tag int, octets string) asn1.RawValue { return asn1.RawValue{Tag: tag, Bytes: []byte(octets)} }

var (
	cn = []int{2, 5, 4, 3}
	ou = []int{2, 5, 4, 11}
	dc = []int{0, 9, 2342, 19200300, 100, 1, 25}
)

// subjects are names and what RabbitMQ 3.10.8 prints for them.
var subjects = []struct {
	name string
	rdns pkix.RDNSequence
	want string
}{
	{"one", pkix.RDNSequence{part(attr("shop", cn...))}, `CN=shop`},
	{"reversed", pkix.RDNSequence{part(attr("DE", 2, 5, 4, 6)), part(attr("Example", 2, 5, 4, 10)), part(attr("shop", cn...))}, `CN=shop,O=Example,C=DE`},
	{"every known type", pkix.RDNSequence{
		part(attr("a", 2, 5, 4, 4)), part(attr("b", 2, 5, 4, 42)), part(attr("c", 2, 5, 4, 43)), part(attr("d", 2, 5, 4, 44)), part(attr("e", 2, 5, 4, 7)), part(attr("f", 2, 5, 4, 8)),
		part(attr("g", ou...)), part(attr("h", 2, 5, 4, 12)), part(attr("i", 2, 5, 4, 5)), part(attr("j", 2, 5, 4, 65)), part(attr("k", 0, 9, 2342, 19200300, 100, 1, 1)),
	}, `UID=k,PSEUDONYM=j,SERIALNUMBER=i,TITLE=h,OU=g,ST=f,L=e,GENERATIONQUALIFIER=d,INITIALS=c,GIVENNAME=b,SN=a`},
	{"domain", pkix.RDNSequence{part(attr(raw(asn1.TagIA5String, "org"), dc...)), part(attr(raw(asn1.TagIA5String, "example"), dc...)), part(attr("x", cn...))}, `CN=x,DC=example,DC=org`},
	{"mail", pkix.RDNSequence{part(attr(raw(asn1.TagIA5String, "a@b.example"), 1, 2, 840, 113549, 1, 9, 1))}, `EMAILADDRESS=a@b.example`},
	{"several values", pkix.RDNSequence{part(attr("a", cn...), attr("b", ou...)), part(attr("c", ou...))}, `OU=c,CN=a+OU=b`},
	{"the same type twice", pkix.RDNSequence{part(attr("a", cn...)), part(attr("b", cn...))}, `CN=b,CN=a`},
	{"escaped", pkix.RDNSequence{part(attr(`a,b+c"d\e<f>g;h=i`, cn...))}, `CN=a\,b\+c\"d\\e\<f\>g\;h=i`},
	{"blanks", pkix.RDNSequence{part(attr(" a b ", cn...))}, `CN=\ a b\ `},
	{"number sign", pkix.RDNSequence{part(attr("#a#", cn...))}, `CN=\#a#`},
	{"umlaut", pkix.RDNSequence{part(attr("Grüße", cn...))}, `CN=Gr\C3\BC\C3\9Fe`},
	{"tilde and controls", pkix.RDNSequence{part(attr("a~\x01\n", cn...))}, `CN=a\7E\01\0A`},
	{"Latin-1", pkix.RDNSequence{part(attr(raw(asn1.TagT61String, "Gr\xfc"), cn...))}, `CN=Gr\C3\BC`},
	{"BMP", pkix.RDNSequence{part(attr(raw(tagBMPString, "\x00a\x03\xbb"), cn...))}, `CN=a\CE\BB`},
	{"universal", pkix.RDNSequence{part(attr(raw(tagUniversalString, "\x00\x00\x00a\x00\x01\xf6\x00"), cn...))}, `CN=a\F0\9F\98\80`},
	{"unknown type", pkix.RDNSequence{part(attr("v", 1, 3, 6, 1, 4, 1, 99999, 1))}, `1.3.6.1.4.1.99999.1=v`},
	{"street", pkix.RDNSequence{part(attr("s", 2, 5, 4, 9))}, `2.5.4.9=s`},
	{"blank alone", pkix.RDNSequence{part(attr(" ", cn...))}, `CN=\ `},
}

func named(t *testing.T, a *tlstest.Authority, name string, rdns pkix.RDNSequence, extra ...pkix.Extension) *x509.Certificate {
	t.Helper()
	der, err := asn1.Marshal(rdns)
	if err != nil {
		t.Fatal(err)
	}
	return a.Issue(strings.ReplaceAll(name, " ", "-"), x509.Certificate{RawSubject: der, ExtraExtensions: extra}).Cert
}

func TestSubject(t *testing.T) {
	for _, c := range subjects {
		t.Run(c.name, func(t *testing.T) {
			der, err := asn1.Marshal(c.rdns)
			if err != nil {
				t.Fatal(err)
			}
			cert := &x509.Certificate{RawSubject: der, RawIssuer: der}
			if got := Subject(cert); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if name, ok := (Login{}).Name(cert); name != c.want || !ok {
				t.Errorf("login %q, %t", name, ok)
			}
			if got := Issuer(cert); got != c.want {
				t.Errorf("issuer %s", got)
			}
		})
	}
}

func TestValidity(t *testing.T) {
	a := tlstest.NewAuthority(t, "authority")
	c := a.Issue("x", x509.Certificate{NotBefore: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), NotAfter: time.Date(2051, 1, 2, 3, 4, 5, 0, time.UTC)}).Cert
	if got, want := Validity(c), "2026-01-02T03:04:05Z - 2051-01-02T03:04:05Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// otherName makes an alternative name of the kind otherName.
func otherName(t *testing.T, value any) asn1.RawValue {
	t.Helper()
	inner, err := asn1.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	id, err := asn1.Marshal(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := asn1.Marshal(asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: inner})
	if err != nil {
		t.Fatal(err)
	}
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tagOtherName, IsCompound: true, Bytes: append(id, wrapped...)}
}

func TestLoginNames(t *testing.T) {
	a := tlstest.NewAuthority(t, "authority")
	address, _ := url.Parse("spiffe://example.org/shop")
	rich := a.Issue("rich", x509.Certificate{
		Subject: pkix.Name{CommonName: "shop", ExtraNames: []pkix.AttributeTypeAndValue{attr("first", cn...), attr("second", cn...)}}, DNSNames: []string{"a.example", "b.example"},
		IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1).To4(), net.ParseIP("2001:db8::1")}, EmailAddresses: []string{"a@b.example"}, URIs: []*url.URL{address},
	}).Cert
	names, err := asn1.Marshal([]asn1.RawValue{otherName(t, "shop@EXAMPLE.ORG"), otherName(t, 7), {Class: asn1.ClassContextSpecific, Tag: tagDNS, Bytes: []byte("c.example")}})
	if err != nil {
		t.Fatal(err)
	}
	other := named(t, a, "other", nil, pkix.Extension{Id: oidSubjectAltName, Value: names})
	for _, c := range []struct {
		cert  *x509.Certificate
		login Login
		want  string // "" if there is none
	}{
		{rich, Login{From: FromCommonName}, "first,second"},
		{rich, Login{From: FromSAN, SANType: SANDNS}, "a.example"},
		{rich, Login{From: FromSAN, SANType: SANDNS, SANIndex: 1}, "b.example"},
		{rich, Login{From: FromSAN, SANType: SANDNS, SANIndex: 2}, ""},
		{rich, Login{From: FromSAN, SANType: SANIP}, "10.0.0.1"},
		{rich, Login{From: FromSAN, SANType: SANIP, SANIndex: 1}, "2001:db8::1"},
		{rich, Login{From: FromSAN, SANType: SANEmail}, "a@b.example"},
		{rich, Login{From: FromSAN, SANType: SANURI}, "spiffe://example.org/shop"},
		{rich, Login{From: FromSAN, SANType: SANOtherName}, ""},
		{rich, Login{From: FromSAN, SANType: "x"}, ""},
		{other, Login{From: FromSAN, SANType: SANOtherName}, "shop@EXAMPLE.ORG"},
		{other, Login{From: FromSAN, SANType: SANOtherName, SANIndex: 1}, "#020107"},
		{other, Login{From: FromSAN, SANType: SANDNS}, "c.example"},
		{other, Login{From: FromCommonName}, ""},
		{other, Login{From: FromDistinguishedName}, ""},
	} {
		got, ok := c.login.Name(c.cert)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%+v: got %q, %t, want %q", c.login, got, ok, c.want)
		}
	}
}

// FuzzNames: any bytes of a name or of alternative names are read or are none.
func FuzzNames(f *testing.F) {
	for _, c := range subjects {
		der, err := asn1.Marshal(c.rdns)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(der)
	}
	f.Add([]byte("\x30\x08\x82\x06a.test"))
	f.Fuzz(func(t *testing.T, der []byte) {
		c := &x509.Certificate{RawSubject: der, Extensions: []pkix.Extension{{Id: oidSubjectAltName, Value: der}}}
		for _, l := range []Login{{}, {From: FromCommonName}, {From: FromSAN, SANType: SANDNS}, {From: FromSAN, SANType: SANIP}, {From: FromSAN, SANType: SANOtherName}} {
			if name, ok := l.Name(c); ok == (name == "") || len(name) > 8*len(der)+64 {
				t.Errorf("%+v: %q, %t of %d bytes", l, name, ok, len(der))
			}
		}
	})
}

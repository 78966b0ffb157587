package tlsconf

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Subject prints whom a certificate is for, Issuer who vouches for it, as RabbitMQ prints names: RFC 4514, the last part first. An unreadable name is empty.
func Subject(c *x509.Certificate) string { return nameText(c.RawSubject) }

// Issuer prints who vouches for a certificate; see Subject.
func Issuer(c *x509.Certificate) string { return nameText(c.RawIssuer) }

// Validity prints from when until when a certificate counts, as RabbitMQ does.
func Validity(c *x509.Certificate) string {
	const layout = "2006-01-02T15:04:05Z"
	return c.NotBefore.UTC().Format(layout) + " - " + c.NotAfter.UTC().Format(layout)
}

// Where a user's name stands in a certificate: the values of key ssl_cert_login_from.
const (
	FromDistinguishedName = "distinguished_name"
	FromCommonName        = "common_name"
	FromSAN               = "subject_alternative_name"
)

// The kinds of subject alternative names: the values of key ssl_cert_login_san_type.
const (
	SANDNS       = "dns"
	SANIP        = "ip"
	SANEmail     = "email"
	SANURI       = "uri"
	SANOtherName = "other_name"
)

// Login says where in a client's certificate its user's name stands.
type Login struct {
	// From is one of the From constants; FromDistinguishedName if empty.
	From string
	// SANType and SANIndex choose among the alternative names: the Index'th of the type, from 0.
	SANType  string
	SANIndex int
}

// Name returns the user's name; false if the certificate has none there.
func (l Login) Name(c *x509.Certificate) (string, bool) {
	name := ""
	switch l.From {
	case FromCommonName:
		name = strings.Join(commonNames(c.RawSubject), ",")
	case FromSAN:
		names := alternativeNames(c, l.SANType)
		if l.SANIndex < 0 || l.SANIndex >= len(names) {
			return "", false
		}
		name = names[l.SANIndex]
	default:
		name = Subject(c)
	}
	return name, name != ""
}

// attribute is one part of a name, its value not yet read.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// attributeSET is a SET OF attributes; the name of the type tells package asn1 so.
type attributeSET []attribute

var oidCommonName = asn1.ObjectIdentifier{2, 5, 4, 3}

// attributeNames are RabbitMQ's words for the types of attributes.
var attributeNames = map[string]string{
	"2.5.4.4": "SN", "2.5.4.42": "GIVENNAME", "2.5.4.43": "INITIALS", "2.5.4.44": "GENERATIONQUALIFIER", "2.5.4.3": "CN", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O",
	"2.5.4.11": "OU", "2.5.4.12": "TITLE", "2.5.4.6": "C", "2.5.4.5": "SERIALNUMBER", "2.5.4.65": "PSEUDONYM", "0.9.2342.19200300.100.1.25": "DC",
	"1.2.840.113549.1.9.1": "EMAILADDRESS", "0.9.2342.19200300.100.1.1": "UID",
}

func parseName(der []byte) []attributeSET {
	var parts []attributeSET
	if rest, err := asn1.Unmarshal(der, &parts); err != nil || len(rest) > 0 {
		return nil
	}
	return parts
}

func nameText(der []byte) string {
	parts := parseName(der)
	texts := make([]string, 0, len(parts))
	for i := len(parts) - 1; i >= 0; i-- {
		var same []string
		for _, a := range parts[i] {
			key := a.Type.String()
			if name, ok := attributeNames[key]; ok {
				key = name
			}
			same = append(same, key+"="+escape(valueText(a.Value)))
		}
		texts = append(texts, strings.Join(same, "+"))
	}
	return strings.Join(texts, ",")
}

func commonNames(der []byte) []string {
	var list []string
	for _, part := range parseName(der) {
		for _, a := range part {
			if a.Type.Equal(oidCommonName) {
				list = append(list, valueText(a.Value))
			}
		}
	}
	return list
}

const (
	tagUniversalString = 28
	tagBMPString       = 30
)

// valueText reads a string of any of ASN.1's kinds into UTF-8; what is none is printed as RFC 4514 wants it, in hexadecimal.
func valueText(v asn1.RawValue) string {
	if v.Class == asn1.ClassUniversal {
		switch v.Tag {
		case asn1.TagPrintableString, asn1.TagIA5String, asn1.TagUTF8String, asn1.TagNumericString:
			return string(v.Bytes)
		case asn1.TagT61String: // as everybody does, Latin-1
			runes := make([]rune, 0, len(v.Bytes))
			for _, b := range v.Bytes {
				runes = append(runes, rune(b))
			}
			return string(runes)
		case tagBMPString:
			units := make([]uint16, 0, len(v.Bytes)/2)
			for b := v.Bytes; len(b) >= 2; b = b[2:] {
				units = append(units, uint16(b[0])<<8|uint16(b[1]))
			}
			return string(utf16.Decode(units))
		case tagUniversalString:
			var runes []rune
			for b := v.Bytes; len(b) >= 4; b = b[4:] {
				runes = append(runes, rune(uint32(b[0])<<24|uint32(b[1])<<16|uint32(b[2])<<8|uint32(b[3])))
			}
			return string(runes)
		}
	}
	return "#" + hex.EncodeToString(v.FullBytes)
}

// escape writes a value as RabbitMQ does: RFC 4514, and every octet that is not printable ASCII, or is a tilde, as a backslash with two digits.
func escape(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case i == 0 && (c == ' ' || c == '#'), i == len(value)-1 && c == ' ', strings.IndexByte(`"+,;<>\`, c) >= 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= '~':
			fmt.Fprintf(&b, "\\%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

var oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

// The tags of the kinds of alternative names, RFC 5280.
const (
	tagOtherName = 0
	tagEmail     = 1
	tagDNS       = 2
	tagURI       = 6
	tagIP        = 7
)

// alternativeNames lists the names of one kind in the order of the certificate.
func alternativeNames(c *x509.Certificate, kind string) []string {
	tag, known := map[string]int{SANDNS: tagDNS, SANIP: tagIP, SANEmail: tagEmail, SANURI: tagURI, SANOtherName: tagOtherName}[kind]
	if !known {
		return nil
	}
	var list []string
	for _, e := range c.Extensions {
		var names []asn1.RawValue
		if !e.Id.Equal(oidSubjectAltName) {
			continue
		}
		if rest, err := asn1.Unmarshal(e.Value, &names); err != nil || len(rest) > 0 {
			return nil
		}
		for _, n := range names {
			if n.Class == asn1.ClassContextSpecific && n.Tag == tag {
				list = append(list, alternativeName(tag, n))
			}
		}
	}
	return list
}

// alternativeName prints one name; one that cannot be read is empty, which no user is called.
func alternativeName(tag int, n asn1.RawValue) string {
	switch tag {
	case tagIP:
		if len(n.Bytes) != net.IPv4len && len(n.Bytes) != net.IPv6len {
			return ""
		}
		return net.IP(n.Bytes).String()
	case tagOtherName:
		var id asn1.ObjectIdentifier
		rest, err := asn1.Unmarshal(n.Bytes, &id)
		if err != nil {
			return ""
		}
		var wrapped, value asn1.RawValue
		if rest, err = asn1.Unmarshal(rest, &wrapped); err != nil || len(rest) > 0 {
			return ""
		}
		if rest, err = asn1.Unmarshal(wrapped.Bytes, &value); err != nil || len(rest) > 0 || value.IsCompound {
			return ""
		}
		return valueText(value)
	}
	if !utf8.Valid(n.Bytes) {
		return ""
	}
	return string(n.Bytes)
}

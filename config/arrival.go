package config

import (
	"cmp"
	"crypto/tls"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/tlsconf"
)

// This file has the settings of how clients arrive: TLS, the PROXY protocol, login mechanisms.

// HTTP is where an HTTP server listens and with which certificate. An empty address is none.
type HTTP struct {
	// Listen is the address without TLS, ListenTLS that with it, as net.Listen takes them.
	Listen, ListenTLS string
	// TLS is what ListenTLS serves with.
	TLS tlsconf.Options
}

// Login is which mechanisms clients may log in with.
type Login struct {
	// Mechanisms are their names, sorted, at least one.
	Mechanisms []string
	// Certificate says where in a client's certificate its user's name stands.
	Certificate tlsconf.Login
	// AnonymousUser and AnonymousPass are what a client logs in as that does not say who it is.
	AnonymousUser, AnonymousPass string

	mechanisms map[string]string // by what stands in the place of $name
}

// The names of mechanisms, each of which package broker knows.
var mechanismNames = []string{"PLAIN", "AMQPLAIN", "EXTERNAL", "ANONYMOUS"}

// arrivalKeys are the rows of the table for it.
var arrivalKeys = slices.Concat([]Key{
	{
		Name: "listeners.tcp", Type: Enum, Choices: []string{"none"},
		Doc:   "`none` closes the listeners without TLS that this source or one before it names.",
		apply: func(c *Config, _ string, _ value) { c.AMQP.Listen = nil },
	},
	{
		Name: "listeners.ssl", Type: Enum, Choices: []string{"none"},
		Doc:   "`none` closes the listeners with TLS that this source or one before it names.",
		apply: func(c *Config, _ string, _ value) { c.AMQP.ListenTLS = nil },
	},
	{
		Name: "listeners.ssl.default", Type: Address, ShortFlag: "amqps",
		Doc:   "Address for AMQP clients with TLS; RabbitMQ's port is 5671. It needs `ssl_options.certfile` and `ssl_options.keyfile`. Sources replace each other as with `listeners.tcp.default`.",
		apply: func(c *Config, _ string, v value) { c.AMQP.ListenTLS = append(c.AMQP.ListenTLS, v.address) },
	},
	{
		Name: "listeners.ssl.$name", Type: Address,
		Doc:   "Further addresses for AMQP clients with TLS, under any name or number.",
		apply: func(c *Config, _ string, v value) { c.AMQP.ListenTLS = append(c.AMQP.ListenTLS, v.address) },
	},
	{
		Name: "ssl_handshake_timeout", Type: Duration, Unit: time.Millisecond, Default: strconv.Itoa(limits.TLSHandshakeTimeoutMillis), Min: 100, Max: 600_000,
		Doc:   "How long a TLS handshake of an AMQP client may take, within `handshake_timeout`; a plain number is milliseconds. Beyond it the socket is closed.",
		apply: func(c *Config, _ string, v value) { c.AMQP.TLSTimeout = v.duration },
	},
}, tlsKeys("ssl_options.", "listeners with TLS", func(c *Config) *tlsconf.Options { return &c.AMQP.TLS }), []Key{
	{
		Name: "proxy_protocol", Type: Bool, Default: "false",
		Doc:   "AMQP connections come through proxies that put a PROXY header of version 1 or 2 in front; the addresses in it count. Others are closed.",
		apply: func(c *Config, _ string, v value) { c.AMQP.ProxyProtocol = v.on },
	},
	{
		Name: "proxy_protocol_allowed_ips.$name", Type: String,
		Doc:   "Addresses of proxies, as 10.1.2.3 or 10.1.0.0/16, under any name or number. `proxy_protocol` needs at least one, for who may send the header may be anybody.",
		check: checkPrefix,
		apply: func(c *Config, name string, v value) {
			if c.AMQP.proxies == nil {
				c.AMQP.proxies = map[string]netip.Prefix{}
			}
			c.AMQP.proxies[name], _ = parsePrefix(v.text)
		},
	},
	{
		Name: "auth_mechanisms.$name", Type: Enum, Choices: mechanismNames,
		Doc: "A login mechanism that clients are offered, under any name or number; none named: PLAIN and AMQPLAIN. EXTERNAL is the client's certificate and needs `ssl_options.verify`.",
		apply: func(c *Config, name string, v value) {
			if c.Login.mechanisms == nil {
				c.Login.mechanisms = map[string]string{}
			}
			c.Login.mechanisms[name] = v.text
		},
	},
	{
		Name: "ssl_cert_login_from", Type: Enum, Default: tlsconf.FromDistinguishedName, Choices: []string{tlsconf.FromDistinguishedName, tlsconf.FromCommonName, tlsconf.FromSAN, "subject_alt_name"},
		Doc: "What in a client's certificate is the user's name, for EXTERNAL.",
		apply: func(c *Config, _ string, v value) {
			if c.Login.Certificate.From = v.text; v.text == "subject_alt_name" {
				c.Login.Certificate.From = tlsconf.FromSAN
			}
		},
	},
	{
		Name: "ssl_cert_login_san_type", Type: Enum, Default: tlsconf.SANDNS, Choices: []string{tlsconf.SANDNS, tlsconf.SANIP, tlsconf.SANEmail, tlsconf.SANURI, tlsconf.SANOtherName},
		Doc:   "Which kind of alternative name, for `ssl_cert_login_from = subject_alternative_name`.",
		apply: func(c *Config, _ string, v value) { c.Login.Certificate.SANType = v.text },
	},
	{
		Name: "ssl_cert_login_san_index", Type: Int, Default: "0", Max: 1000,
		Doc:   "Which of the alternative names of that kind, from 0.",
		apply: func(c *Config, _ string, v value) { c.Login.Certificate.SANIndex = int(v.number) },
	},
	{
		Name: "anonymous_login_user", Type: String, Default: "guest",
		Doc:   "The user that a client becomes with the mechanism ANONYMOUS, which is off unless `auth_mechanisms` has it.",
		apply: func(c *Config, _ string, v value) { c.Login.AnonymousUser = v.text },
	},
	{
		Name: "anonymous_login_pass", Type: String, Default: "guest", Secret: true,
		Doc:   "Password of `anonymous_login_user`.",
		apply: func(c *Config, _ string, v value) { c.Login.AnonymousPass = v.text },
	},
}, httpsKeys("management", "https", "15671", "the HTTP API", func(c *Config) *HTTP { return &c.Management }),
	httpsKeys("prometheus", "", "15691", "`/metrics`", func(c *Config) *HTTP { return &c.Metrics }))

// httpsKeys are the rows for the TLS of an HTTP server.
func httpsKeys(name, flag, port, what string, at func(*Config) *HTTP) []Key {
	whole := name + ".ssl.listen"
	return append([]Key{
		{
			Name: whole, Type: Address, ShortFlag: flag,
			Doc:   "Address of " + what + " with TLS. Where a key of `" + name + ".ssl` is set it is port " + port + " of every address; the address without TLS is then closed unless it is set, too.",
			apply: func(c *Config, _ string, v value) { at(c).ListenTLS = v.address },
		},
		{
			Name: name + ".ssl.ip", Type: Host, PartOf: whole,
			Doc:   "Host part of `" + whole + "`.",
			apply: func(c *Config, _ string, v value) { setHost(&at(c).ListenTLS, v.text) },
		},
		{
			Name: name + ".ssl.port", Type: Int, Max: 65_535, PartOf: whole,
			Doc:   "Port part of `" + whole + "`.",
			apply: func(c *Config, _ string, v value) { setPort(&at(c).ListenTLS, v.number) },
		},
	}, tlsKeys(name+".ssl.", what+" with TLS; without `"+name+".ssl.certfile` all of `ssl_options` holds", func(c *Config) *tlsconf.Options { return &at(c).TLS })...)
}

var tlsVersions = map[string]uint16{"tlsv1.3": tls.VersionTLS13, "tlsv1.2": tls.VersionTLS12}

// certificateKeys are the rows that say which certificate is shown, and which of the other end's are believed.
func certificateKeys(prefix, of, others string, at func(*Config) *tlsconf.Options) []Key {
	return []Key{
		{
			Name: prefix + "certfile", Type: String, Doc: "File with the certificate of " + of + ", and those between it and its authority, in PEM. Changed files are read anew within seconds, or at SIGHUP.",
			apply: func(c *Config, _ string, v value) { at(c).CertFile = v.text },
		},
		{
			Name: prefix + "keyfile", Type: String, Doc: "File with the key of `" + prefix + "certfile`, in PEM.",
			apply: func(c *Config, _ string, v value) { at(c).KeyFile = v.text },
		},
		{
			Name: prefix + "password", Type: String, Secret: true, Doc: "Password of an encrypted `" + prefix + "keyfile`.",
			apply: func(c *Config, _ string, v value) { at(c).Password = v.text },
		},
		{
			Name: prefix + "cacertfile", Type: String, Doc: "File with the authorities that " + others + "' certificates are verified against, in PEM.",
			apply: func(c *Config, _ string, v value) { at(c).CAFile = v.text },
		},
	}
}

// tlsKeys are the rows for one set of certificates of listeners.
func tlsKeys(prefix, of string, at func(*Config) *tlsconf.Options) []Key {
	return append(certificateKeys(prefix, of, "clients", at), []Key{
		{
			Name: prefix + "verify", Type: Enum, Choices: []string{"verify_none", "verify_peer"},
			Doc:   "`verify_peer` asks clients for a certificate and refuses those with a wrong one. Unset: verify_none.",
			apply: func(c *Config, _ string, v value) { at(c).VerifyPeer = v.text == "verify_peer" },
		},
		{
			Name: prefix + "fail_if_no_peer_cert", Type: Bool, Doc: "With verify_peer: refuse clients without a certificate.",
			apply: func(c *Config, _ string, v value) { at(c).RequirePeer = v.on },
		},
		{
			Name: prefix + "depth", Type: Int, Max: 100,
			Doc:   "How many certificates may stand between a client's and its authority's. Unset: " + strconv.Itoa(limits.TLSDepthMax) + ".",
			apply: func(c *Config, _ string, v value) { at(c).DepthMax = int(v.number) },
		},
		{
			Name: prefix + "versions.$name", Type: Enum, Choices: []string{"tlsv1.3", "tlsv1.2"}, Doc: "A version of TLS that is spoken, under any name or number. None named: both.",
			apply: func(c *Config, name string, v value) {
				o := at(c)
				if o.Versions == nil {
					o.Versions = map[string]uint16{}
				}
				o.Versions[name] = tlsVersions[v.text]
			},
		},
	}...)
}

func checkPrefix(text string) *problem {
	if _, err := parsePrefix(text); err != nil {
		return problemf("use an address like 10.1.2.3, or a prefix like 10.1.0.0/16 or fd00::/8", "%q is neither an address nor a prefix", text)
	}
	return nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if in6 := p.Bits() - 96; p.Addr().Is4In6() && in6 >= 0 {
		p = netip.PrefixFrom(p.Addr().Unmap(), in6)
	}
	return p.Masked(), err
}

// finishArrival fills in and checks what concerns more than one of these settings.
func (l *loader) finishArrival() error {
	c := l.config
	slices.Sort(c.AMQP.ListenTLS)
	c.AMQP.ListenTLS = slices.Compact(c.AMQP.ListenTLS)
	if len(c.AMQP.Listen)+len(c.AMQP.ListenTLS) == 0 {
		return l.failAt("listeners.tcp", "without a listener nobody could connect", "set listeners.ssl.default")
	}
	if err := l.finishTLS("ssl_options.", "listeners.ssl", &c.AMQP.TLS, len(c.AMQP.ListenTLS) > 0); err != nil {
		return err
	}
	for _, h := range []struct {
		name, port string
		http       *HTTP
	}{{"management", "15671", &c.Management}, {"prometheus", "15691", &c.Metrics}} {
		if err := l.finishHTTPS(h.name, h.port, h.http); err != nil {
			return err
		}
	}
	c.AMQP.Proxies = slices.SortedFunc(maps.Values(c.AMQP.proxies), func(a, b netip.Prefix) int { return cmp.Compare(a.String(), b.String()) })
	if !c.AMQP.ProxyProtocol {
		c.AMQP.Proxies = nil
	} else if len(c.AMQP.Proxies) == 0 {
		return l.failAt("proxy_protocol", "it is not said who may send the header", "set proxy_protocol_allowed_ips.1 to the proxies' address; 0.0.0.0/0 and ::/0 are everybody")
	}
	c.Login.Mechanisms = slices.Compact(slices.Sorted(maps.Values(c.Login.mechanisms)))
	if len(c.Login.Mechanisms) == 0 {
		c.Login.Mechanisms = []string{"AMQPLAIN", "PLAIN"}
	}
	return nil
}

// finishHTTPS opens a listener with TLS if any of its keys is set, and closes the one without if that is not set.
func (l *loader) finishHTTPS(name, port string, h *HTTP) error {
	prefix := name + ".ssl."
	if l.anyOf(prefix) == "" {
		return nil
	}
	whole := prefix + "listen"
	switch {
	case h.ListenTLS == "":
		h.ListenTLS = ":" + port
		l.derive(whole, h.ListenTLS)
	case strings.HasSuffix(h.ListenTLS, ":"):
		h.ListenTLS += port
		l.effective[whole] = Setting{Key: whole, Value: h.ListenTLS, Source: l.effective[whole].Source}
	}
	if open := name + ".listen"; l.effective[open].Source == "default" {
		h.Listen = ""
		delete(l.effective, open)
	}
	if h.TLS.CertFile == "" {
		h.TLS = l.config.AMQP.TLS
		if h.TLS.CertFile == "" {
			return l.failAt(l.anyOf(prefix), "TLS needs a certificate", "set "+prefix+"certfile and "+prefix+"keyfile, or those of ssl_options")
		}
		return nil
	}
	return l.finishTLS(prefix, prefix, &h.TLS, true)
}

// anyOf returns a key that begins with prefix and is set, the first by name; empty if none is.
func (l *loader) anyOf(prefix string) string {
	first := ""
	for name := range l.effective {
		if strings.HasPrefix(name, prefix) && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// finishTLS checks a set of certificates; used says that something listens with it, as a key that begins with by says.
func (l *loader) finishTLS(prefix, by string, o *tlsconf.Options, used bool) error {
	if _, set := l.effective[prefix+"depth"]; !set {
		o.DepthMax = limits.TLSDepthMax
	}
	switch {
	case o.RequirePeer && !o.VerifyPeer:
		return l.failAt(prefix+"fail_if_no_peer_cert", "it needs "+prefix+"verify = verify_peer", "set that, too")
	case o.VerifyPeer && o.CAFile == "":
		return l.failAt(prefix+"verify", "there is nothing to verify against", "set "+prefix+"cacertfile")
	case !used || o.CertFile != "" && o.KeyFile != "":
		return nil
	case o.CertFile == "":
		return l.failAt(l.anyOf(by), "TLS needs a certificate", "set "+prefix+"certfile and "+prefix+"keyfile")
	}
	return l.failAt(prefix+"certfile", "it needs a key", "set "+prefix+"keyfile")
}

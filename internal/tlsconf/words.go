package tlsconf

import (
	"crypto/tls"
	"strings"
)

// Words are what RabbitMQ says of a connection's TLS.
type Words struct {
	// Protocol is tlsv1.2 or tlsv1.3. KeyExchange, Cipher and Hash are those of the cipher suite, in Erlang's words.
	Protocol, KeyExchange, Cipher, Hash string
}

// Describe puts what a handshake agreed on into RabbitMQ's words.
func Describe(cs *tls.ConnectionState) Words {
	w := Words{Protocol: "tlsv1.2", KeyExchange: "any"}
	suite := strings.ToLower(strings.TrimPrefix(tls.CipherSuiteName(cs.CipherSuite), "TLS_"))
	if cs.Version == tls.VersionTLS13 {
		w.Protocol = "tlsv1.3"
	}
	if exchange, rest, ok := strings.Cut(suite, "_with_"); ok {
		w.KeyExchange, suite = exchange, rest
	}
	// What is left is CIPHER_HASH; the hash of an authenticated cipher is that of the key derivation.
	w.Cipher, w.Hash = suite, "aead"
	if i := strings.LastIndexByte(suite, '_'); i >= 0 {
		w.Cipher = suite[:i]
		if strings.HasSuffix(w.Cipher, "_cbc") {
			w.Hash = suite[i+1:]
		}
	}
	return w
}

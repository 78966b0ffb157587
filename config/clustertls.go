package config

import (
	"crypto/tls"

	"github.com/warrenmq/warren/internal/tlsconf"
)

// clusterTLS begins the names of the settings for TLS between nodes.
const clusterTLS = "cluster.ssl."

// clusterTLSKeys are the rows of the table for it. Any of them has the node speak mutual TLS 1.3 with every other, and with nobody else.
var clusterTLSKeys = certificateKeys(clusterTLS, "the node towards other nodes, as caller and as called", "other nodes", func(c *Config) *tlsconf.Options { return &c.Cluster.TLS })

// finishClusterTLS checks what nodes speak among each other: whoever names a file of it means mutual TLS.
func (l *loader) finishClusterTLS() error {
	o := &l.config.Cluster.TLS
	set := l.anyOf(clusterTLS)
	if set == "" {
		return nil
	}
	if o.CAFile == "" {
		return l.failAt(set, "nodes verify each other, and there is nothing to verify against", "set "+clusterTLS+"cacertfile")
	}
	o.VerifyPeer, o.RequirePeer = true, true
	o.Versions = map[string]uint16{"1": tls.VersionTLS13}
	return l.finishTLS(clusterTLS, clusterTLS, o, true)
}

package config

import (
	"net"
	"os"
	"slices"
	"strings"

	"github.com/warrenmq/warren/config/limits"
)

// nodeNameBytesMax is the longest node name: it is shown and kept as a short string.
const nodeNameBytesMax = limits.ShortStringBytesMax

// finish fills in what follows from other settings and checks what concerns more than one.
func (l *loader) finish(hostName string) error {
	c := l.config
	host := shortHost(hostName)
	if err := l.finishNames(host); err != nil {
		return err
	}
	if err := l.finishSecret(); err != nil {
		return err
	}
	slices.Sort(c.AMQP.Listen)
	c.AMQP.Listen = slices.Compact(c.AMQP.Listen) // two names for one address are one listener
	if err := l.finishArrival(); err != nil {
		return err
	}
	if err := l.finishClusterTLS(); err != nil {
		return err
	}
	if c.Cluster.Advertise == "" {
		c.Cluster.Advertise = withHost(c.Cluster.Listen, host)
		l.derive("cluster.advertise", c.Cluster.Advertise)
	} else if strings.HasPrefix(c.Cluster.Advertise, ":") {
		return l.failAt("cluster.advertise", "the address has no host", "use HOST:PORT as other nodes reach it")
	}
	if len(c.Cluster.Join) > 0 && !slices.ContainsFunc(c.Cluster.Join, c.Cluster.other) {
		return l.failAt("cluster.join", "the node cannot join itself: "+strings.Join(c.Cluster.Join, ",")+" is its own address", "name a node of the cluster, or leave it out to begin a new one")
	}
	c.settings = settingsInOrder(l.effective)
	return nil
}

// other tells whether an address is not plainly the node's own.
func (c *Cluster) other(address string) bool {
	own := []string{c.Advertise}
	for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
		own = append(own, withHost(c.Listen, host))
	}
	return !slices.Contains(own, address)
}

func (l *loader) finishNames(host string) error {
	c := l.config
	switch {
	case c.NodeName == "":
		c.NodeName = "rabbit@" + host
		l.derive("node.name", c.NodeName)
	case !strings.Contains(c.NodeName, "@"):
		c.NodeName += "@" + host
	}
	name, at, _ := strings.Cut(c.NodeName, "@")
	if name == "" || at == "" || len(c.NodeName) > nodeNameBytesMax || strings.ContainsFunc(c.NodeName, notInNodeName) || strings.Contains(at, "@") {
		return l.failAt("node.name", "it is not a node name", "use NAME@HOST of letters, digits and . - _")
	}
	if c.Cluster.Name == "" {
		c.Cluster.Name = c.NodeName
		l.derive("cluster_name", c.Cluster.Name)
	}
	for _, short := range []struct{ key, text string }{
		{"default_user", c.First.User}, {"default_vhost", c.First.VHost}, {"cluster_name", c.Cluster.Name},
	} {
		if len(short.text) > limits.ShortStringBytesMax {
			return l.failAt(short.key, "it is longer than 255 bytes", "use a shorter one")
		}
	}
	return nil
}

func notInNodeName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@._-", r))
}

// finishSecret reads the secret's file if that is where the secret comes from.
func (l *loader) finishSecret() error {
	a := l.secretFile
	if a == nil {
		return nil
	}
	text, err := readSmall(a.text, limits.SecretFileBytesMax)
	if err != nil {
		return a.fail(problemf("name a readable file", "%s", reason(err)))
	}
	text = strings.TrimRight(text, " \t\r\n")
	if text == "" || strings.ContainsFunc(text, isControl) {
		return a.fail(problemf("write the secret into it, as one line of text", "the file holds no secret"))
	}
	l.config.Cluster.Secret = text
	return nil
}

// failAt is an error about a key at the place that set it.
func (l *loader) failAt(key, what, fix string) *Error {
	source := l.effective[key].Source
	code := ExitConfig
	if strings.HasPrefix(source, "--") {
		code = ExitUsage
	}
	return &Error{Code: code, Source: source, Key: key, Problem: what, Fix: fix}
}

// derive lists a value that follows from others.
func (l *loader) derive(key, text string) {
	l.effective[key] = Setting{Key: key, Value: text, Source: "default"}
}

// shortHost returns the host's name up to the first dot.
func shortHost(name string) string {
	if name == "" {
		name, _ = os.Hostname() // an error leaves it empty
	}
	short, _, _ := strings.Cut(name, ".")
	if short == "" || strings.ContainsFunc(short, notInNodeName) || strings.Contains(short, "@") {
		return "localhost"
	}
	return short
}

// withHost puts a host into an address that has none or that means every address.
func withHost(address, host string) string {
	old, port, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(old); old == "" || ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort(host, port)
	}
	return address
}

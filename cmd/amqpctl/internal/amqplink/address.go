package amqplink

import (
	"crypto/tls"
	"net"
	"net/url"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/httpapi"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Target says where to connect and as what. Timeout bounds the connection with its handshake and every single call; Name is shown by the broker
// as the connection's name.
type Target struct {
	URL     string
	Vhost   string
	Name    string
	Timeout time.Duration
	// TLS is for amqps; nil is Go's default. It is not changed.
	TLS *tls.Config
}

// DefaultVhost is the virtual host that every broker has.
const DefaultVhost = "/"

// Derive returns the AMQP URL that goes with a management URL: the same host and user, the standard port of amqp or amqps.
func Derive(managementURL string) (string, error) {
	u, err := url.Parse(managementURL)
	if err != nil || u.Host == "" {
		return "", httpapi.BadURL()
	}
	derived := url.URL{Scheme: "amqp", User: u.User, Host: net.JoinHostPort(u.Hostname(), "5672")}
	if u.Scheme == "https" {
		derived.Scheme, derived.Host = "amqps", net.JoinHostPort(u.Hostname(), "5671")
	}
	return derived.String(), nil
}

// Vhost returns the virtual host that the path of an AMQP URL names; no path, or "/" alone, is the default one.
func Vhost(amqpURL string) string {
	uri, err := amqp.ParseURI(amqpURL)
	if err != nil || uri.Vhost == "" {
		return DefaultVhost
	}
	return uri.Vhost
}

// Parse checks an AMQP URL. Its text never appears in the error, for it holds a password.
func Parse(amqpURL string) (amqp.URI, error) {
	const want = "bad --amqp-url: want amqp://user:password@host:port/vhost"
	u, err := url.Parse(amqpURL)
	if err != nil {
		return amqp.URI{}, exit.Errorf(exit.Config, want+`, with reserved characters in user, password and vhost percent-encoded (%%2F for /)`)
	}
	if u.Scheme != "amqp" && u.Scheme != "amqps" {
		return amqp.URI{}, exit.Errorf(exit.Config, want+", not scheme %q", u.Scheme)
	}
	uri, err := amqp.ParseURI(amqpURL)
	if err != nil {
		return amqp.URI{}, exit.Errorf(exit.Config, want)
	}
	return uri, nil
}

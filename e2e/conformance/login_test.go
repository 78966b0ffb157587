package conformance

import (
	"errors"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

// TestAMQPLAIN holds the login mechanism of old clients: a field table without its length, with LOGIN and PASSWORD in whatever order.
func TestAMQPLAIN(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	field := func(key, tag, value string) string {
		a := (&rawamqp.Arguments{}).ShortString(key).Raw(tag)
		if tag == "S" {
			a.LongString(value)
		} else {
			a.Raw(value)
		}
		return string(a.Frame(0).Payload)
	}
	user, password := field("LOGIN", "S", "guest"), field("PASSWORD", "S", "guest")
	const missing = "SYNTAX_ERROR - AMQPLAIN auth info "
	for _, c := range []struct {
		name, response string
		code           uint16
		text           string
	}{
		{"in order", user + password, 0, ""},
		{"other order, more fields", password + field("OTHER", "t", "\x01") + user, 0, ""},
		{"wrong password", user + field("PASSWORD", "S", "wrong"), amqp.AccessRefused, "ACCESS_REFUSED - Login was refused using authentication mechanism AMQPLAIN. For details see the broker logfile."},
		{"no such user", field("LOGIN", "S", "nobody") + password, amqp.AccessRefused, "ACCESS_REFUSED - Login was refused using authentication mechanism AMQPLAIN. For details see the broker logfile."},
		{"no password", user, amqp.SyntaxError, missing},
		{"no user", password, amqp.SyntaxError, missing},
		{"nothing", "", amqp.SyntaxError, missing},
		{"other types", field("LOGIN", "t", "\x01") + field("PASSWORD", "t", "\x01"), amqp.SyntaxError, missing},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.code == amqp.SyntaxError && b.External() {
				t.Skip("RabbitMQ closes the socket after three seconds without a word")
			}
			conn, err := rawamqp.Dial(b.AMQP)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			err = conn.Handshake(rawamqp.Login{Mechanism: "AMQPLAIN", Response: c.response})
			if c.code == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var closed *rawamqp.CloseError
			if !errors.As(err, &closed) || closed.Code != c.code || !strings.HasPrefix(closed.Text, c.text) {
				t.Errorf("got %v, want %d %s", err, c.code, c.text)
			}
		})
	}
	t.Run("a client library", func(t *testing.T) {
		conn, err := amqp.DialConfig(b.AMQPURL(), amqp.Config{SASL: []amqp.Authentication{&amqp.AMQPlainAuth{Username: "guest", Password: "guest"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		harness.Channel(t, conn)
	})
}

package amqplink

import (
	"strings"
	"testing"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
)

func TestDerive(t *testing.T) {
	for in, want := range map[string]string{
		"http://u:p%40x@h:15672": "amqp://u:p%40x@h:5672", "https://h": "amqps://h:5671", "http://[::1]:15672/prefix": "amqp://[::1]:5672",
	} {
		if got, err := Derive(in); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
	if _, err := Derive("localhost"); exit.Of(err) != exit.Config {
		t.Errorf("no URL: %v", err)
	}
}

func TestVhost(t *testing.T) {
	for in, want := range map[string]string{
		"amqp://h": "/", "amqp://h/": "/", "amqp://h/%2F": "/", "amqp://h/orders": "orders", "amqp://h/a%2Fb": "a/b", "nonsense": "/",
	} {
		if got := Vhost(in); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestBadURLsHideThePassword(t *testing.T) {
	for _, in := range []string{"amqp://u:se#cret@h", "amqp://u:se cret@h", "http://u:secret@h", "amqp://u:secret@h:port", "amqp://u:secret@h?heartbeat=x"} {
		_, err := Parse(in)
		if exit.Of(err) != exit.Config || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

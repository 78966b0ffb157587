package lean

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/amqplink"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

// listen runs a peer that is no broker: it writes something and then keeps silent, or closes.
func listen(t *testing.T, write string, closes bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			fmt.Fprint(c, write)
			if closes {
				buf := make([]byte, 8)
				_, _ = c.Read(buf)
				c.Close()
			}
		}
	}()
	return "amqp://guest:secret@" + l.Addr().String()
}

func TestDialFailuresHaveCodeAndReason(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{Password: "other"})
	good := fakebroker.Start(t, fakebroker.Config{})
	for _, c := range []struct {
		name, url, vhost string
		code             exit.Code
		text             string
	}{
		{"wrong password", broker.URL(), "/", exit.Auth, "403 ACCESS_REFUSED - Login was refused"},
		{"unknown vhost", good.URL(), "nix", exit.Data, "530 NOT_ALLOWED - vhost nix not found"},
		{"nobody listens", "amqp://127.0.0.1:1", "/", exit.Unavailable, "refused"},
		{"keeps silent", listen(t, "", false), "/", exit.Timeout, "no answer in time"},
		{"closes", listen(t, "", true), "/", exit.Unavailable, "is it an AMQP port?"},
		{"speaks HTTP", listen(t, "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n", false), "/", exit.Unavailable, "does not speak AMQP 0-9-1"},
		{"no URL", "http://localhost", "/", exit.Config, "amqp://"},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit := 10 * time.Second
			if c.code == exit.Timeout {
				limit = 100 * time.Millisecond
			}
			conn, err := Dial(t.Context(), amqplink.Target{URL: c.url, Vhost: c.vhost, Timeout: limit})
			if err == nil {
				conn.Abort()
				t.Fatal("connected")
			}
			if exit.Of(err) != c.code || !strings.Contains(err.Error(), c.text) {
				t.Errorf("code %d, %q; want %d with %q", exit.Of(err), err, c.code, c.text)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the password is in the error: %q", err)
			}
		})
	}
}

// A channel that the broker closed can be opened again and used.
func TestReopenAfterChannelClose(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{})
	broker.Put("there", "a", "b")
	conn, err := Dial(t.Context(), amqplink.Target{URL: broker.URL(), Vhost: "/", Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn.Server != "Fake 1.0" {
		t.Errorf("server is %q", conn.Server)
	}
	var ok amqp.QueueDeclareOk
	err = conn.Call(Channel, &amqp.QueueDeclare{Queue: "missing", Passive: true}, &ok)
	if exit.Of(err) != exit.Data || !strings.Contains(exit.Text(err), "404 NOT_FOUND - no queue 'missing'") {
		t.Fatalf("missing queue: %v", err)
	}
	if err := conn.Reopen(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Call(Channel, &amqp.QueueDeclare{Queue: "there", Passive: true}, &ok); err != nil || ok.MessageCount != 2 {
		t.Errorf("after reopening: %v, %d messages", err, ok.MessageCount)
	}
}

func TestDialEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Dial(ctx, amqplink.Target{URL: "amqp://127.0.0.1:1", Timeout: time.Minute})
	if err == nil {
		t.Fatal("connected")
	}
}

func settlement(id amqp.MethodID, tag uint64, multiple bool) []byte {
	if id == amqp.MethodBasicAck {
		return (&amqp.BasicAck{DeliveryTag: tag, Multiple: multiple}).Append(nil)
	}
	return (&amqp.BasicNack{DeliveryTag: tag, Multiple: multiple}).Append(nil)
}

// Answers come singly, for ranges, out of order and for everything; each number is answered once, whatever the mixture.
func TestConfirmsAnswerEachNumberOnce(t *testing.T) {
	c := NewConfirms(8)
	var got []uint64
	settle := func(tag uint64, multiple bool, published uint64) {
		t.Helper()
		if err := c.Settle(settlement(amqp.MethodBasicAck, tag, multiple), published, func(seq uint64) { got = append(got, seq) }); err != nil {
			t.Fatal(err)
		}
	}
	settle(3, false, 8) // out of order
	if c.Answered() != 0 {
		t.Errorf("answered %d after number 3 alone", c.Answered())
	}
	settle(1, false, 8)
	settle(5, true, 8) // 2, 4, 5; 3 was answered
	if c.Answered() != 5 {
		t.Errorf("answered %d, want 5", c.Answered())
	}
	settle(12, false, 13) // around the end of the ring
	settle(0, true, 13)   // everything that is out
	if c.Answered() != 13 {
		t.Errorf("answered %d, want 13", c.Answered())
	}
	if want := "[3 1 2 4 5 12 6 7 8 9 10 11 13]"; fmt.Sprint(got) != want {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestConfirmsRefuseWhatIsNotOut(t *testing.T) {
	for _, c := range []struct {
		name     string
		tag      uint64
		multiple bool
	}{{"beyond", 4, false}, {"beyond, multiple", 4, true}, {"zero", 0, false}, {"again", 1, false}, {"again, out of order", 3, false}} {
		t.Run(c.name, func(t *testing.T) {
			confirms := NewConfirms(4)
			for _, seq := range []uint64{1, 3} {
				if err := confirms.Settle(settlement(amqp.MethodBasicAck, seq, false), 3, func(uint64) {}); err != nil {
					t.Fatal(err)
				}
			}
			err := confirms.Settle(settlement(amqp.MethodBasicNack, c.tag, c.multiple), 3, func(uint64) { t.Error("a number was answered") })
			if exit.Of(err) != exit.Internal {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := NewConfirms(4).Settle([]byte{0, 60, 0, 80}, 3, nil); exit.Of(err) != exit.Internal {
		t.Errorf("a short payload: %v", err)
	}
}

func BenchmarkConfirms(b *testing.B) {
	c := NewConfirms(1000)
	var n uint64
	payload := settlement(amqp.MethodBasicAck, 0, true)
	b.ReportAllocs()
	for i := 0; i < b.N; i += 100 {
		if err := c.Settle(payload, uint64(i)+100, func(uint64) { n++ }); err != nil {
			b.Fatal(err)
		}
	}
}

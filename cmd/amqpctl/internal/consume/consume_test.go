package consume

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/amqplink"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(i + 1)
	}
	return out
}

func target(b *fakebroker.Broker) amqplink.Target {
	return amqplink.Target{URL: b.URL(), Vhost: "/", Timeout: 10 * time.Second}
}

// Whatever the way to end and to acknowledge: what was written plus what is still queued is what was there, in order, and with a count nothing
// more was taken than that.
func TestWrittenAndLeftAddUp(t *testing.T) {
	for _, c := range []struct {
		name          string
		opt           Options
		written, left int
		redelivered   int
	}{
		{"count below prefetch", Options{Count: 7, Ack: AckManual, Prefetch: 100}, 7, 293, 0},
		{"count above prefetch", Options{Count: 150, Ack: AckManual, Prefetch: 100}, 150, 150, 0},
		{"count, no prefetch", Options{Count: 150, Ack: AckManual}, 150, 150, 0},
		{"count, automatic", Options{Count: 150, Ack: AckAuto, Prefetch: 100}, 150, 150, 0},
		{"count, requeue", Options{Count: 150, Ack: AckRequeue, Prefetch: 10}, 150, 300, 150},
		{"prefetch one", Options{UntilEmpty: true, Ack: AckManual, Prefetch: 1}, 300, 0, 0},
		{"until empty", Options{UntilEmpty: true, Ack: AckManual, Prefetch: 100}, 300, 0, 0},
		{"until empty, automatic", Options{UntilEmpty: true, Ack: AckAuto, Prefetch: 100}, 300, 0, 0},
		{"until empty, requeue", Options{UntilEmpty: true, Ack: AckRequeue, Prefetch: 100}, 300, 300, 300},
		{"count beyond the end, until empty", Options{Count: 1000, UntilEmpty: true, Ack: AckManual, Prefetch: 100}, 300, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			broker := fakebroker.Start(t, fakebroker.Config{})
			all := numbered(300)
			broker.Put("q", all...)
			c.opt.Queue, c.opt.Format = "q", writeBody
			var out bytes.Buffer
			written, err := Run(t.Context(), target(broker), c.opt, &out)
			if err != nil || written != uint64(c.written) {
				t.Fatalf("%d written, %v; want %d", written, err, c.written)
			}
			if got, want := out.String(), strings.Join(all[:c.written], "\n")+"\n"; got != want {
				t.Errorf("output %.60q..., want %.60q...", got, want)
			}
			left, _ := broker.Bodies("q")
			if got, want := strings.Join(left, " "), strings.Join(all[300-c.left:], " "); got != want {
				t.Errorf("left %.60q..., want %.60q...", got, want)
			}
			if n := broker.Redelivered("q"); n != c.redelivered {
				t.Errorf("%d messages were taken and given back, want %d", n, c.redelivered)
			}
		})
	}
}

// failingWriter takes some bytes and then no more.
type failingWriter struct{ left int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

// A message that the output did not take must not be acknowledged.
func TestFailedOutputAcknowledgesNothing(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{})
	broker.Put("q", numbered(100)...)
	_, err := Run(t.Context(), target(broker), Options{Queue: "q", UntilEmpty: true, Ack: AckManual, Prefetch: 10, Format: writeBody}, &failingWriter{left: 3})
	if exit.Of(err) != exit.Data || !strings.Contains(err.Error(), "disk full") {
		t.Fatalf("got %v", err)
	}
	for range time.Tick(time.Millisecond) { // the broker takes them back when it sees the connection closed
		if left, _ := broker.Bodies("q"); len(left) == 100 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("messages are missing")
		}
	}
}

// signalWriter calls a function at the first write.
type signalWriter struct {
	bytes.Buffer
	first func()
}

func (w *signalWriter) Write(p []byte) (int, error) {
	if w.first != nil {
		w.first()
		w.first = nil
	}
	return w.Buffer.Write(p)
}

// Ctrl-C: what was written is settled, what was not is still there. Without acknowledgements all that is on its way is written.
func TestInterruptLosesNothing(t *testing.T) {
	for _, ack := range []Ack{AckManual, AckAuto, AckRequeue} {
		t.Run(string(ack), func(t *testing.T) {
			broker := fakebroker.Start(t, fakebroker.Config{})
			all := numbered(5000)
			broker.Put("q", all...)
			ctx, cancel := context.WithCancel(t.Context())
			out := &signalWriter{first: cancel}
			written, err := Run(ctx, target(broker), Options{Queue: "q", Ack: ack, Prefetch: 20, Format: writeBody}, out)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Fields(out.String())
			if uint64(len(lines)) != written || written == 0 {
				t.Errorf("%d lines, %d counted", len(lines), written)
			}
			left, _ := broker.Bodies("q")
			if ack == AckRequeue {
				lines = nil
			}
			if got := strings.Join(append(lines, left...), " "); got != strings.Join(all, " ") {
				t.Errorf("%d written and %d left do not make %d in order", len(lines), len(left), len(all))
			}
		})
	}
}

func TestInterruptWhileNothingArrives(t *testing.T) {
	for _, ack := range []Ack{AckManual, AckAuto} {
		ctx, cancel := context.WithCancel(t.Context())
		broker := fakebroker.Start(t, fakebroker.Config{OnCall: func(m amqp.MethodID) error {
			if m == amqp.MethodBasicConsume {
				time.AfterFunc(20*time.Millisecond, cancel)
			}
			return nil
		}})
		broker.Declare("q")
		written, err := Run(ctx, target(broker), Options{Queue: "q", Ack: ack, Prefetch: 20, Format: writeBody}, new(bytes.Buffer))
		if written != 0 || err != nil || ctx.Err() == nil {
			t.Errorf("%s: %d written, %v", ack, written, err)
		}
	}
}

func TestFailures(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{})
	_, err := Run(t.Context(), target(broker), Options{Queue: "nix", Ack: AckManual, Format: writeBody}, new(bytes.Buffer))
	if exit.Of(err) != exit.Data || !strings.Contains(exit.Text(err), "404 NOT_FOUND - no queue 'nix'") {
		t.Errorf("missing queue: %v", err)
	}
	broker.Put("q", "a")
	_, err = Run(t.Context(), target(broker), Options{Queue: "q", Ack: AckManual, Format: writeBody}, &signalWriter{first: broker.Disconnect})
	if exit.Of(err) != exit.Unavailable || !strings.Contains(err.Error(), "connection lost") {
		t.Errorf("lost connection: %v", err)
	}
}

func TestFormats(t *testing.T) {
	var p amqp.Properties
	p.SetContentType("text/plain")
	p.SetHeaders(amqp.Table{{Key: "n", Value: amqp.Int64(5)}})
	m := &Message{Exchange: "x", RoutingKey: "k", Redelivered: true, Properties: p.Append(nil), Body: []byte("a<b>\n")}
	for name, want := range map[string]string{
		"raw": "a<b>\n", "body": "a<b>\n\n",
		"json": `{"payload_bytes":5,"redelivered":true,"exchange":"x","routing_key":"k","properties":{"content_type":"text/plain","headers":{"n":5}},"payload":"a<b>\n","payload_encoding":"string"}` + "\n",
	} {
		var out bytes.Buffer
		if err := Formats[name](&out, m); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v; want %q", name, out.String(), err, want)
		}
	}
	var out bytes.Buffer
	m.Body = []byte{0xff, 0x00}
	var object map[string]any
	if err := errors.Join(writeJSON(&out, m), json.Unmarshal(out.Bytes(), &object)); err != nil {
		t.Fatal(err)
	}
	if object["payload"] != "/wA=" || object["payload_encoding"] != "base64" {
		t.Errorf("bytes that are no text: %v", object)
	}
}

// A body that comes in many frames, and one without any, are whole messages.
func TestLargeAndEmptyBodies(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{FrameMax: 4096})
	large := strings.Repeat("0123456789", 100_000)
	broker.Put("q", large, "", "end")
	var out bytes.Buffer
	written, err := Run(t.Context(), target(broker), Options{Queue: "q", Count: 3, Ack: AckManual, Prefetch: 1, Format: writeBody}, &out)
	if err != nil || written != 3 || out.String() != large+"\n\nend\n" {
		t.Errorf("%d written, %v, %d bytes", written, err, out.Len())
	}
}

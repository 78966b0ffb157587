package publish

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/amqplink"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

func dial(t *testing.T, broker *fakebroker.Broker, opt Options) *Publisher {
	t.Helper()
	if opt.Timeout == 0 {
		opt.Timeout = 10 * time.Second
	}
	if opt.Window == 0 {
		opt.Window = 100
	}
	opt.Mandatory = true
	p, err := Dial(t.Context(), amqplink.Target{URL: broker.URL(), Vhost: "/", Timeout: 10 * time.Second}, opt)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func TestLinesArriveOnceAndInOrder(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{})
	broker.Declare("q")
	p := dial(t, broker, Options{Key: "q"})
	if err := p.Lines(t.Context(), strings.NewReader(numbers(20000))); err != nil {
		t.Fatal(err)
	}
	counts, err := p.Finish(t.Context())
	if err != nil || counts != (Counts{Sent: 20000, Confirmed: 20000}) {
		t.Fatalf("%+v, %v", counts, err)
	}
	bodies, _ := broker.Bodies("q")
	if got := strings.Join(bodies, "\n") + "\n"; got != numbers(20000) {
		t.Errorf("%d messages, not the lines in order", len(bodies))
	}
}

// Each fault ends publishing with counts that agree with what the broker really has.
func TestFaultsAreCountedExactly(t *testing.T) {
	const at = 61
	for _, c := range []struct {
		name   string
		fault  fakebroker.Fault
		queue  string
		code   exit.Code
		counts Counts // InDoubt is what is left of Sent
		stored int
	}{
		{"connection lost", fakebroker.Hangup, "q", exit.Unavailable, Counts{Confirmed: at - 1, FirstOpen: at}, at - 1},
		{"no such queue", fakebroker.None, "nix", exit.Data, Counts{FirstOpen: 1}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			broker := fakebroker.Start(t, fakebroker.Config{OnPub: func(n uint64) fakebroker.Fault {
				if n == at {
					return c.fault
				}
				return fakebroker.None
			}})
			broker.Declare("q")
			p := dial(t, broker, Options{Key: c.queue, Window: 50})
			var err error
			for i := 0; i < 1000 && err == nil; i++ {
				err = p.Publish(t.Context(), []byte("x"))
			}
			counts, finishErr := p.Finish(t.Context())
			if exit.Of(finishErr) != c.code || err != nil && exit.Of(err) != c.code {
				t.Errorf("errors %v and %v, want code %d", err, finishErr, c.code)
			}
			if counts.Sent != counts.Confirmed+counts.Refused+counts.Returned+counts.InDoubt {
				t.Errorf("counts do not add up: %+v", counts)
			}
			if counts.Sent == 1000 {
				t.Error("publishing went on after the fault")
			}
			if counts.Confirmed != c.counts.Confirmed || counts.FirstOpen != c.counts.FirstOpen {
				t.Errorf("%+v, want %+v", counts, c.counts)
			}
			bodies, ok := broker.Bodies(c.queue)
			if ok && len(bodies) != c.stored || !ok && c.stored >= 0 {
				t.Errorf("the broker has %d messages, want %d", len(bodies), c.stored)
			}
		})
	}
}

// A refused message ends publishing; those after it that were on their way are still counted.
func TestRefusedMessageIsNamed(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{OnPub: func(n uint64) fakebroker.Fault {
		if n == 5 {
			return fakebroker.Refuse
		}
		return fakebroker.None
	}})
	broker.Declare("q")
	p := dial(t, broker, Options{Key: "q", Window: 10})
	for range 10 {
		if err := p.Publish(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	counts, err := p.Finish(t.Context())
	if want := (Counts{Sent: 10, Confirmed: 9, Refused: 1, FirstOpen: 5}); counts != want || exit.Of(err) != exit.Unavailable {
		t.Errorf("%+v, %v; want %+v", counts, err, want)
	}
}

func TestMissingConfirmEndsAfterTheTimeout(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{OnPub: func(n uint64) fakebroker.Fault {
		if n == 3 {
			return fakebroker.Silent
		}
		return fakebroker.None
	}})
	broker.Declare("q")
	p := dial(t, broker, Options{Key: "q", Window: 4, Timeout: 500 * time.Millisecond})
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		err = p.Publish(t.Context(), []byte("x"))
	}
	if exit.Of(err) != exit.Timeout {
		t.Fatalf("got %v", err)
	}
	counts, err := p.Finish(t.Context())
	if exit.Of(err) != exit.Timeout || counts.InDoubt != 1 || counts.FirstOpen != 3 || counts.Confirmed != counts.Sent-1 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// A broker that blocks publishers is named as the reason when nothing is confirmed any more.
func TestBlockedBrokerIsNamed(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{OnPub: func(n uint64) fakebroker.Fault {
		if n == 3 {
			return fakebroker.Block
		}
		return fakebroker.None
	}})
	broker.Declare("q")
	p := dial(t, broker, Options{Key: "q", Window: 4, Timeout: 500 * time.Millisecond})
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		err = p.Publish(t.Context(), []byte("x"))
	}
	if exit.Of(err) != exit.Timeout || !strings.Contains(err.Error(), "blocks publishers (low on memory)") {
		t.Errorf("got %v", err)
	}
	if counts, _ := p.Finish(t.Context()); counts.Confirmed != 2 || counts.FirstOpen != 3 {
		t.Errorf("%+v", counts)
	}
}

// Input that does not come must not hold an interrupt up, and what was read before must be confirmed.
func TestInterruptWhileInputIsSilent(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{})
	broker.Declare("q")
	p := dial(t, broker, Options{Key: "q"})
	reader, writer := io.Pipe()
	defer writer.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		fmt.Fprint(writer, "one\ntwo\n")
		for range time.Tick(time.Millisecond) {
			if p.Counts().Confirmed == 2 || ctx.Err() != nil {
				break
			}
		}
		cancel()
	}()
	stopper := time.AfterFunc(10*time.Second, cancel)
	defer stopper.Stop()
	if err := p.Lines(ctx, reader); exit.Of(err) != exit.Interrupted {
		t.Errorf("got %v", err)
	}
	counts, err := p.Finish(t.Context())
	if err != nil || counts != (Counts{Sent: 2, Confirmed: 2}) {
		t.Errorf("%+v, %v", counts, err)
	}
}

func TestLargeBodyGoesInFrames(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{FrameMax: 4096})
	broker.Declare("q")
	p := dial(t, broker, Options{Key: "q"})
	body := strings.Repeat("0123456789", 300_000)
	for range 2 {
		if err := p.Publish(t.Context(), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bodies, _ := broker.Bodies("q"); len(bodies) != 2 || bodies[0] != body || bodies[1] != body {
		t.Error("the bodies differ")
	}
}

func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, c := range []struct {
		name, input string
		want        []string
	}{
		{"nothing", "", nil},
		{"last line without newline", "a\nb", []string{"a", "b"}},
		{"empty lines are messages", "\n\na\n\n", []string{"", "", "a", ""}},
		{"carriage return belongs to the line", "a\r\nb\r\n", []string{"a\r", "b\r"}},
		{"longer than the buffer", long + "\nb\n", []string{long, "b"}},
		{"any bytes", "\x00\xff\n\xfe\n", []string{"\x00\xff", "\xfe"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := bufio.NewReaderSize(strings.NewReader(c.input), readLineBytes)
			var got []string
			for chunk := new(chunk); chunk.err == nil; {
				chunk.fill(in)
				start := 0
				for _, end := range chunk.ends {
					got = append(got, string(chunk.text[start:end]))
					start = end
				}
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
				t.Errorf("got %.80q, want %.80q", got, c.want)
			}
		})
	}
}

func TestTooLongLineIsNamed(t *testing.T) {
	broker := fakebroker.Start(t, fakebroker.Config{})
	broker.Declare("q")
	p := dial(t, broker, Options{Key: "q"})
	endless := io.MultiReader(strings.NewReader("one\ntwo\n"), strings.NewReader(strings.Repeat("x", lineBytesMax+1)))
	err := p.Lines(t.Context(), endless)
	if exit.Of(err) != exit.Data || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("got %v", err)
	}
	if counts, err := p.Finish(t.Context()); err != nil || counts.Confirmed != 2 {
		t.Errorf("%+v, %v", counts, err)
	}
}

func TestSetProperties(t *testing.T) {
	var p amqp.Properties
	err := SetProperties(&p, []string{"content-type=text/plain", "priority=7", "expiration=1m30s", "message-id=a=b", "timestamp=1970-01-01T00:01:00Z", "delivery-mode=transient"})
	if err != nil {
		t.Fatal(err)
	}
	if p.ContentType != "text/plain" || p.Priority != 7 || p.Expiration != "90000" || p.MessageID != "a=b" || p.Timestamp != 60 || p.DeliveryMode != 1 {
		t.Errorf("got %+v", p)
	}
	for _, bad := range []string{"priority=256", "priority=-1", "expiration=soon", "delivery-mode=3", "color=red", "type", "timestamp=yesterday", "app-id=" + strings.Repeat("x", 256)} {
		if err := SetProperties(&p, []string{bad}); err == nil {
			t.Errorf("%.40q was taken", bad)
		}
	}
	if err := SetProperties(&p, []string{"type=a", "type=b"}); err == nil {
		t.Error("a property given twice was taken")
	}
}

// Every name in the text for people is one that is known, and the reverse.
func TestPropertyNamesAreComplete(t *testing.T) {
	listed := strings.Split(PropertyNames, ", ")
	for _, name := range listed {
		if properties[name] == nil {
			t.Errorf("%s is listed and unknown", name)
		}
	}
	if len(listed) != len(properties) {
		t.Errorf("%d listed, %d known", len(listed), len(properties))
	}
}

func BenchmarkPublish(b *testing.B) {
	broker := fakebroker.Start(b, fakebroker.Config{OnPub: func(uint64) fakebroker.Fault { return fakebroker.Lose }})
	broker.Declare("q")
	p, err := Dial(b.Context(), amqplink.Target{URL: broker.URL(), Vhost: "/", Timeout: 10 * time.Second}, Options{Key: "q", Window: 1000, Timeout: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Publish(b.Context(), body); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := p.Finish(b.Context()); err != nil {
		b.Fatal(err)
	}
}

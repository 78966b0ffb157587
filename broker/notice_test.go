package broker

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/meta"
)

// quietBroker is a broker whose notices nobody publishes, so that they pile up.
func quietBroker(t *testing.T) (*Broker, *fakeHost) {
	h := newFakeHost(t)
	b := &Broker{opt: Options{Host: h}, host: h, stop: make(chan struct{})}
	b.opt.fill()
	b.notices = newNotices(b)
	return b, h
}

// Whoever causes events never waits for them: what is too much is dropped and counted.
func TestNoticesAreBounded(t *testing.T) {
	b, _ := quietBroker(t)
	for range limits.NoticesMax + 5 {
		b.event("queue.created", textField("name", "q"))
	}
	if got := b.Totals().NoticesDropped; got != 5 {
		t.Errorf("%d notices were dropped, want 5", got)
	}
	b, _ = quietBroker(t)
	view, _ := amqp.ScanProperties(new(amqp.Properties).Append(nil))
	for range 18 {
		b.trace("publish", "x", &traced{vhost: "/", exchange: "x", properties: &view, body: make([]byte, 1<<20)}, textField("a", "b"))
	}
	if got := b.Totals().NoticesDropped; got != 2 {
		t.Errorf("%d of 18 messages of 1 MiB were dropped, want 2", got)
	}
}

// Nothing is traced or told while nobody is bound, however tracing is set.
func TestNoticesAreMadeForListenersOnly(t *testing.T) {
	b, h := quietBroker(t)
	do := func(cmds ...meta.Command) {
		t.Helper()
		replies, err := h.Do(context.Background(), cmds...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range replies {
			if replies[i].Reason != meta.ReasonOK {
				t.Fatal(replies[i].Reason)
			}
		}
	}
	h.OnChange(b.tellChanges)
	tracing := func(on bool) meta.Command {
		return meta.Command{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/", Tracing: on}}
	}
	bind := func(op meta.Op, source string) meta.Command {
		return meta.Command{Op: op, Binding: meta.Binding{VHost: "/", Source: source, Kind: meta.ToQueue, Destination: "q", RoutingKey: "#"}}
	}
	want := func(when string, traces, tells bool) {
		t.Helper()
		if b.traces("/") != traces || b.tells() != tells {
			t.Errorf("%s: traces %t, tells %t, want %t, %t", when, b.traces("/"), b.tells(), traces, tells)
		}
		if b.traces("closed") {
			t.Errorf("%s: another virtual host is traced", when)
		}
	}
	do(EventExchange("/"), meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: "q", Durable: true, Replicas: []meta.NodeID{1}}})
	want("at first", false, false)
	do(tracing(true))
	want("tracing, nobody bound", false, false)
	do(bind(meta.OpBind, traceExchange))
	want("bound to traces", true, false)
	do(bind(meta.OpBind, eventExchange))
	want("bound to both", true, true)
	do(tracing(false))
	want("tracing off", false, true)
	do(tracing(true), bind(meta.OpUnbind, traceExchange), bind(meta.OpUnbind, eventExchange))
	want("unbound", false, false)
	do(bind(meta.OpBind, traceExchange))
	want("bound again", true, false)
	do(meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: meta.FirstQueueID}})
	want("queue deleted", false, false)
	if allocs := testing.AllocsPerRun(100, func() {
		if b.tells() || b.traces("/") {
			t.Error("somebody listens")
		}
	}); allocs != 0 {
		t.Errorf("asking allocates %v times", allocs)
	}
}

// An event exchange that is missing, because the catalogue is older or its virtual host was made again, is made.
func TestEventExchangeIsMade(t *testing.T) {
	h := newFakeHost(t)
	b := New(Options{Host: h})
	t.Cleanup(func() { _ = b.Shutdown(context.Background()) })
	there := func() bool { return h.Catalogue().View.Exchange("/", eventExchange) != nil }
	if !there() {
		t.Fatal("it is missing after the start")
	}
	for _, cmd := range []meta.Command{{Op: meta.OpDeleteVHost, VHost: meta.VHost{Name: "/"}}, {Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/"}}} {
		if _, err := h.Do(context.Background(), cmd); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); !there(); {
		if time.Now().After(deadline) {
			t.Fatal("it is missing after its virtual host was made again")
		}
		runtime.Gosched()
	}
}

// An alarm of this node is told once when it is raised and once when it clears.
func TestAlarmsAreTold(t *testing.T) {
	b, _ := quietBroker(t)
	b.notices.events.Store(true)
	for _, lack := range []alarm.Set{0, alarm.Memory, alarm.Memory, alarm.Memory | alarm.Disk, alarm.Disk, 0} {
		b.tellAlarms(lack)
	}
	var told []string
	for len(b.notices.queue) > 0 {
		n := <-b.notices.queue
		source, _ := n.properties.Headers.Get("source")
		text, _ := source.AsString()
		told = append(told, n.key+" "+text)
	}
	if want := []string{"alarm.set memory", "alarm.set disk", "alarm.cleared memory", "alarm.cleared disk"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// Dead letters that a queue had to drop are told of at once, then once a minute with all since; another queue's beside it.
func TestLossesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h := quietBroker(t)
		b.losses.b = b
		for _, name := range []string{"p", "q"} {
			if _, err := h.Do(t.Context(), meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "/", Name: name, Durable: true, Replicas: []meta.NodeID{1}}}); err != nil {
				t.Fatal(err)
			}
		}
		p, q := meta.FirstQueueID, meta.FirstQueueID+1
		b.losses.note(p, 100) // nobody listens
		b.notices.events.Store(true)
		for range 3 {
			b.losses.note(p, 2)
			b.losses.note(q, 5)
			time.Sleep(25 * time.Second)
		}
		b.losses.note(q, 1)
		var told []string
		for len(b.notices.queue) > 0 {
			n := <-b.notices.queue
			name, _ := n.properties.Headers.Get("name")
			lost, _ := n.properties.Headers.Get("lost")
			text, _ := name.AsString()
			number, _ := lost.AsInt64()
			told = append(told, fmt.Sprint(n.key, " ", text, " ", number))
		}
		if want := []string{"queue.letters.lost p 2", "queue.letters.lost q 5", "queue.letters.lost q 11"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		for id := range meta.QueueID(limits.LossesMax) {
			b.losses.due(10_000+id, 1, time.Now())
		}
		if n := len(b.losses.queues); n > limits.LossesMax {
			t.Errorf("%d queues are remembered", n)
		}
		time.Sleep(2 * time.Minute)
		if lost := b.losses.due(20_000, 7, time.Now()); lost != 7 {
			t.Errorf("one more queue, later: %d are told of", lost)
		}
	})
}

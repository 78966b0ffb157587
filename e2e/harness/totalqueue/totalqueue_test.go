package totalqueue

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// history is a small broker that keeps every promise unless a test plants a fault: two publishers confirm into one queue, a consumer
// holds some messages and dies, and the queue is drained.
type history struct {
	ledger *Ledger
	p, r   *Publisher
	queue  []Delivery // what is in the queue, in order
}

func newHistory(t *testing.T, each int) *history {
	t.Helper()
	l := New()
	h := &history{ledger: l, p: l.Publisher("p", "q"), r: l.Publisher("r", "q")}
	for range each {
		for _, from := range []*Publisher{h.p, h.r} {
			h.publish(from)
		}
	}
	return h
}

func (h *history) publish(from *Publisher) {
	id, body := from.Next(100)
	h.queue = append(h.queue, Delivery{Body: body, MessageID: id.String()})
	from.Confirmed(id.Seq)
}

func (h *history) drain() {
	c := h.ledger.Drain("q")
	for _, d := range h.queue {
		if id, ok := c.Deliver(d); ok {
			c.Acked(id)
		}
	}
	c.Close()
}

// found names the kinds of violation of a verdict.
func found(v Verdict) string {
	var names []string
	for _, k := range v.kinds() {
		if k.of.Count > 0 {
			names = append(names, k.name)
		}
	}
	return strings.Join(names, ", ")
}

func TestKeptPromisesPass(t *testing.T) {
	h := newHistory(t, 50)
	// A consumer that takes ten, acknowledges the odd ones and dies; the even ones return to their places, marked.
	c := h.ledger.Consumer("q")
	var left []Delivery
	for i, d := range h.queue[:10] {
		id, _ := c.Deliver(d)
		if i%2 == 1 {
			c.Acked(id)
			continue
		}
		d.Redelivered = true
		left = append(left, d)
	}
	c.Close()
	h.queue = append(left, h.queue[10:]...)
	// One that is never answered and arrives, one that is nacked and does not.
	_, body := h.p.Next(0)
	h.queue = append(h.queue, Delivery{Body: body})
	id, _ := h.p.Next(0)
	h.p.Nacked(id.Seq)
	h.drain()
	v := h.ledger.Verdict()
	if err := v.Err(); err != nil {
		t.Fatalf("a broker that kept its promises is blamed: %v", err)
	}
	if v.Attempted != 102 || v.Confirmed != 100 || v.Nacked != 1 || v.Unanswered != 1 || v.Recovered != 1 || v.Deliveries != 106 || v.Redeliveries != 5 {
		t.Errorf("wrong account: %s", v)
	}
}

// plantedFaults break one promise each.
var plantedFaults = []struct {
	name  string
	want  string
	plant func(h *history)
}{
	{"one confirmed message is dropped", "lost", func(h *history) { h.queue = slices.Delete(h.queue, 7, 8) }},
	{"the last confirmed message is dropped", "lost", func(h *history) { h.queue = h.queue[:len(h.queue)-1] }},
	{"a message held by a dead consumer does not return", "lost", func(h *history) {
		h.ledger.Consumer("q").Deliver(h.queue[0])
		h.queue = h.queue[1:]
	}},
	{"an unanswered message that a consumer held does not return", "vanished", func(h *history) {
		_, body := h.p.Next(100)
		h.ledger.Consumer("q").Deliver(Delivery{Body: body})
	}},
	{"a message that nobody published", "invented", func(h *history) {
		h.queue = append(h.queue, Delivery{Body: encode(ID{"p", 1000}, 100)})
	}},
	{"a publisher that nobody knows", "invented", func(h *history) {
		h.queue = append(h.queue, Delivery{Body: encode(ID{"x", 1}, 100)})
	}},
	{"a message of another queue", "invented", func(h *history) {
		_, body := h.ledger.Publisher("s", "other").Next(100)
		h.queue = append(h.queue, Delivery{Body: body})
	}},
	{"a returned message arrives", "invented", func(h *history) {
		id, body := h.p.Next(100)
		h.p.Returned(id.Seq)
		h.p.Confirmed(id.Seq)
		h.queue = append(h.queue, Delivery{Body: body})
	}},
	{"a confirm for a publish that never was", "invented", func(h *history) { h.p.Confirmed(1000) }},
	{"two confirms for one publish", "invented", func(h *history) { h.p.Confirmed(1) }},
	{"two messages of a publisher change places", "reordered", func(h *history) {
		h.queue[4], h.queue[6] = h.queue[6], h.queue[4]
	}},
	{"two messages of two publishers change places", "reordered", func(h *history) {
		h.queue[4], h.queue[5] = h.queue[5], h.queue[4]
	}},
	{"a returned message goes to the tail", "reordered", func(h *history) {
		h.ledger.Consumer("q").Deliver(h.queue[0])
		h.queue[0].Redelivered = true
		h.queue = append(h.queue[1:], h.queue[0])
	}},
	{"a duplicate without the flag", "unflagged duplicate", func(h *history) {
		h.ledger.Consumer("q").Deliver(h.queue[0])
	}},
	{"a flipped bit", "lost, corrupt", func(h *history) { h.flip(3, 80) }},
	{"a flipped bit in the sequence number", "lost, corrupt", func(h *history) { h.flip(3, 2) }},
	{"a body cut short", "lost, corrupt", func(h *history) { h.queue[3].Body = h.queue[3].Body[:99] }},
	{"the body of one message with the properties of another", "corrupt", func(h *history) {
		h.queue[3].MessageID, h.queue[5].MessageID = h.queue[5].MessageID, h.queue[3].MessageID
	}},
	{"a foreign message", "corrupt", func(h *history) { h.queue = append(h.queue, Delivery{Body: []byte("hello")}) }},
}

// TestPlantedFaultsAreFound wants exactly the broken promise reported.
func TestPlantedFaultsAreFound(t *testing.T) {
	for _, tt := range plantedFaults {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory(t, 50)
			tt.plant(h)
			h.drain()
			v := h.ledger.Verdict()
			if got := found(v); got != tt.want {
				t.Errorf("found %q, want %q: %v", got, tt.want, v.Err())
			}
			if err := v.Err(); err == nil || !strings.Contains(err.Error(), strings.Split(tt.want, ", ")[0]) {
				t.Errorf("the error does not say it: %v", err)
			}
		})
	}
}

func (h *history) flip(message, at int) {
	h.queue[message].Body = slices.Clone(h.queue[message].Body)
	h.queue[message].Body[at] ^= 1
}

// TestLiveConsumersKeepOrder has two consumers at once: each sees a part of the publisher's messages, in order.
func TestLiveConsumersKeepOrder(t *testing.T) {
	h := newHistory(t, 10)
	a, b := h.ledger.Consumer("q"), h.ledger.Consumer("q")
	for i, d := range h.queue {
		c := a
		if i%3 == 0 {
			c = b
		}
		id, _ := c.Deliver(d)
		c.Acked(id)
	}
	if err := h.ledger.Verdict().Err(); err != nil {
		t.Fatalf("two consumers in order are blamed: %v", err)
	}
	// A redelivered one may come late to a live consumer, a first delivery may not.
	late := h.queue[2]
	late.Redelivered = true
	a.Deliver(late)
	if err := h.ledger.Verdict().Err(); err != nil {
		t.Fatalf("a redelivery to a live consumer is blamed: %v", err)
	}
	_, older := h.p.Next(0)
	_, newer := h.p.Next(0)
	c := h.ledger.Consumer("q")
	for _, body := range [][]byte{newer, older} {
		id, _ := c.Deliver(Delivery{Body: body})
		c.Acked(id)
	}
	if got := found(h.ledger.Verdict()); got != "reordered" {
		t.Errorf("two first deliveries out of order: found %q", got)
	}
}

func TestEveryQueueOfAFanoutIsJudged(t *testing.T) {
	l := New()
	p := l.Publisher("p", "q1", "q2")
	id, body := p.Next(10)
	p.Confirmed(id.Seq)
	c := l.Drain("q1")
	c.Deliver(Delivery{Body: body})
	c.Acked(id)
	c.Close()
	v := l.Verdict()
	if v.Lost.Count != 1 || !strings.Contains(v.Lost.Examples[0], "queue q2: p:1 was confirmed and never came") {
		t.Errorf("a fanout that reached one queue of two: %v", v.Err())
	}
}

func TestBodiesHaveTheSizeAskedFor(t *testing.T) {
	for _, size := range []int{0, 1, 30, 64, 1024, 300_000} {
		id := ID{"name", 42}
		body := encode(id, size)
		if least := len("name:42:00000000:"); len(body) != max(size, least) {
			t.Errorf("size %d gives %d bytes", size, len(body))
		}
		if got, err := Decode(body); err != nil || got != id {
			t.Errorf("size %d: decoded %v, %v", size, got, err)
		}
	}
	if bytes.Equal(encode(ID{"a", 1}, 200)[30:], encode(ID{"a", 2}, 200)[30:]) {
		t.Error("two messages have the same padding")
	}
}

func TestExamplesAreBounded(t *testing.T) {
	h := newHistory(t, 100)
	h.queue = nil
	h.drain()
	v := h.ledger.Verdict()
	if v.Lost.Count != 200 || len(v.Lost.Examples) != examplesMax {
		t.Errorf("%d lost, %d examples", v.Lost.Count, len(v.Lost.Examples))
	}
}

package quorum

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// until waits for a condition that no Receiver is told of.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// do submits one command and returns its reply.
func do(t *testing.T, s *Session, c *recorder, q meta.QueueID, token uint64, cmd queue.Command) queue.Reply {
	t.Helper()
	if err := s.Submit(q, &cmd, token); err != nil {
		t.Fatal(err)
	}
	s.Flush()
	c.await(t, "a reply", func() bool { _, ok := c.replies[token]; return ok })
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replies[token]
}

func subscribe(consumer queue.ConsumerID) queue.Command {
	return queue.Command{Op: queue.OpSubscribe, Consumer: consumer, Prefetch: 100, WindowBytes: 1 << 20, WindowCount: 1000}
}

// TestDelete: a delete tells the consumers, answers what waits, removes the data, and leaves the name free for a queue that knows nothing of the old one.
func TestDelete(t *testing.T) {
	for _, durable := range []bool{true, false} {
		h := openHost(t, t.TempDir())
		q := declare(t, h, "q", durable)
		c := newRecorder()
		s := h.OpenSession(c)
		publish(t, s, c, q, 1, 10)
		do(t, s, c, q, 100, subscribe(1))
		c.await(t, "deliveries", func() bool { return len(c.deliveries) == 10 })
		res, err := h.DeleteQueue(context.Background(), q, 0)
		if err != nil || res.Code != queue.CodeOK {
			t.Fatalf("delete: %+v %v", res, err)
		}
		c.await(t, "the end of the consumer", func() bool { return c.gone == 1 })
		if err := s.Submit(q, &queue.Command{Op: queue.OpQuery}, 101); !errors.Is(err, ErrNoQueue) {
			t.Fatalf("submit to a deleted queue: %v", err)
		}
		if _, err := h.DeleteQueue(context.Background(), q, 0); !errors.Is(err, ErrNoQueue) {
			t.Fatalf("second delete: %v", err)
		}
		until(t, "the data is removed", func() bool { _, err := os.Stat(queueDir(h, q)); return errors.Is(err, os.ErrNotExist) })
		again := declare(t, h, "q", durable)
		if again == q {
			t.Fatal("the id was given twice")
		}
		if r := do(t, s, c, again, 102, queue.Command{Op: queue.OpQuery}); r.A != 0 {
			t.Fatalf("the new queue has %d messages", r.A)
		}
	}
}

// TestDeleteConditions: if-unused and if-empty are decided by the queue; what they refuse changes nothing.
func TestDeleteConditions(t *testing.T) {
	for _, durable := range []bool{true, false} {
		h := openHost(t, t.TempDir())
		q := declare(t, h, "q", durable)
		c := newRecorder()
		s := h.OpenSession(c)
		publish(t, s, c, q, 1, 1)
		if res, err := h.DeleteQueue(context.Background(), q, queue.IfEmpty); err != nil || res.Code != queue.CodeNotEmpty {
			t.Fatalf("if-empty: %+v %v", res, err)
		}
		do(t, s, c, q, 100, subscribe(1))
		if res, err := h.DeleteQueue(context.Background(), q, queue.IfUnused); err != nil || res.Code != queue.CodeInUse {
			t.Fatalf("if-unused: %+v %v", res, err)
		}
		publish(t, s, c, q, 2, 1) // it goes on
		do(t, s, c, q, 101, queue.Command{Op: queue.OpCancel, Consumer: 1})
		if res, err := h.DeleteQueue(context.Background(), q, queue.IfUnused); err != nil || res.Code != queue.CodeOK {
			t.Fatalf("if-unused without consumers: %+v %v", res, err)
		}
	}
}

// TestAutoDelete: an auto-delete queue goes with its last consumer, not before.
func TestAutoDelete(t *testing.T) {
	for _, durable := range []bool{true, false} {
		h := openHost(t, t.TempDir())
		def := meta.Queue{VHost: "/", Name: "auto", Durable: durable, AutoDelete: true, Home: h.Node(), HomeBoot: h.Boot(), Replicas: []meta.NodeID{h.Node()}}
		replies, err := h.Do(context.Background(), meta.Command{Op: meta.OpDeclareQueue, Queue: def})
		if err != nil {
			t.Fatal(err)
		}
		q := meta.QueueID(replies[0].ID)
		c := newRecorder()
		s := h.OpenSession(c)
		publish(t, s, c, q, 1, 3)
		do(t, s, c, q, 100, subscribe(1))
		do(t, s, c, q, 101, subscribe(2))
		do(t, s, c, q, 102, queue.Command{Op: queue.OpCancel, Consumer: 1})
		if _, ok := h.QueueStatus(q); !ok {
			t.Fatal("the queue went with its first consumer")
		}
		other := h.OpenSession(newRecorder())
		_ = other
		if left := s.Close(func(meta.QueueID) uint64 { return 3 }, 0); len(left) != 1 {
			t.Fatalf("closed in %v", left)
		}
		until(t, "the queue is gone", func() bool { _, ok := h.QueueStatus(q); return !ok })
	}
}

// TestUnseal: a seal whose delete never came is taken back, and what waited meanwhile is done.
func TestUnseal(t *testing.T) {
	h := openHost(t, t.TempDir())
	q := declare(t, h, "q", true)
	c := newRecorder()
	s := h.OpenSession(c)
	publish(t, s, c, q, 1, 1)
	run, err := h.running(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := run.command(&queue.Command{Op: queue.OpSeal, Condition: queue.IfUnused}); err != nil || r.Code != queue.CodeOK {
		t.Fatalf("seal: %+v %v", r, err)
	}
	publish(t, s, c, q, 2, 100) // returns when they are confirmed
	if r := do(t, s, c, q, 1000, queue.Command{Op: queue.OpQuery}); r.A != 101 {
		t.Fatalf("%d messages", r.A)
	}
}

// TestSessionClose: what was written comes back counted, what was not comes back uncounted, all in place and flagged.
func TestSessionClose(t *testing.T) {
	h := openHost(t, t.TempDir())
	q := declare(t, h, "q", true)
	c := newRecorder()
	s := h.OpenSession(c)
	publish(t, s, c, q, 1, 10)
	do(t, s, c, q, 100, subscribe(1))
	c.await(t, "deliveries", func() bool { return len(c.deliveries) == 10 })
	s.Close(func(meta.QueueID) uint64 { return 4 }, 200)
	c.await(t, "the close", func() bool { _, ok := c.replies[200]; return ok })
	again := newRecorder()
	s = h.OpenSession(again)
	do(t, s, again, q, 1, subscribe(1))
	again.await(t, "deliveries", func() bool { return len(again.deliveries) == 10 })
	for i, d := range again.deliveries {
		if counted := i < 4; !d.Redelivered || (d.DeliveryCount == 1) != counted || d.Seq != queue.Seq(i+1) {
			t.Errorf("delivery %d: %+v", i, d)
		}
	}
}

// TestLateWordOfMembers: after a restart the node hears of what happened to a queue while the catalogue is further already. A time at which it had no replica must not cost it the one that it has.
func TestLateWordOfMembers(t *testing.T) {
	h := openHost(t, t.TempDir())
	id := declare(t, h, "q", true)
	c := newRecorder()
	s := h.OpenSession(c)
	publish(t, s, c, id, 1, 10)
	before := h.slotOf(t, id).runner()
	old := *h.Catalogue().View.QueueByID(id)
	old.Members = []meta.Member{{Replica: 7, Node: h.node + 1}}
	h.changed([]meta.Effect{{Kind: meta.QueueChanged, Queue: &old}})
	if now := h.slotOf(t, id).runner(); now != before {
		t.Fatalf("the replica was replaced by a %T", now)
	}
	publish(t, s, c, id, 11, 10)
}

func (h *Host) slotOf(t *testing.T, id meta.QueueID) *slot {
	t.Helper()
	s, err := h.slot(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

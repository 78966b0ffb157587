package quorum

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// parksSoon has queues parked that are idle for a moment.
func parksSoon(c *Config) { c.ParkMillis = 20 }

// awaitParked waits until a queue is parked, and returns how it is.
func awaitParked(t *testing.T, h *Host, q meta.QueueID) QueueStatus {
	t.Helper()
	var st QueueStatus
	until(t, "the queue is parked", func() bool {
		st, _ = h.QueueStatus(q)
		return st.State == StateParked
	})
	return st
}

// declareWith makes a durable queue with arguments.
func declareWith(t *testing.T, h *Host, name string, arguments amqp.Table) meta.QueueID {
	t.Helper()
	q := meta.Queue{VHost: "/", Name: name, Durable: true, Home: h.Node(), HomeBoot: h.Boot(), Replicas: []meta.NodeID{h.Node()}, Arguments: meta.NewArguments(arguments)}
	replies, err := h.Do(context.Background(), meta.Command{Op: meta.OpDeclareQueue, Queue: q})
	if err != nil || replies[0].Reason != meta.ReasonOK {
		t.Fatalf("declare: %v %v", replies, err)
	}
	return meta.QueueID(replies[0].ID)
}

// TestParkedQueueGoesOn: an idle queue stops, is shown as it was, goes on in order where it was left, over a restart of its node that does not start it.
func TestParkedQueueGoesOn(t *testing.T) {
	path := t.TempDir()
	h := openHost(t, path, parksSoon)
	q := declare(t, h, "q", true)
	c := newRecorder()
	s := h.OpenSession(c)
	publish(t, s, c, q, 1, 10)
	for round := range 3 {
		st := awaitParked(t, h, q)
		if n := uint64(10 * (round + 1)); st.Counts.Ready != n || st.Counts.ReadyBytes != 8*n || st.Leader != h.node || st.Applied == 0 || st.Checkpoint != st.Applied || st.DiskBytes == 0 {
			t.Fatalf("round %d: a parked queue is %+v", round, st)
		}
		until(t, "no bodies are in memory", func() bool { return h.bodyBytes.Load() == 0 })
		if round == 1 {
			before := st
			stopHost(h)
			h = openHost(t, path, parksSoon)
			if st := awaitParked(t, h, q); h.present(q) != nil || st.Counts != before.Counts || st.Applied != before.Applied {
				t.Errorf("after a restart the queue is %+v, it was %+v", st, before)
			}
			c = newRecorder()
			s = h.OpenSession(c)
		}
		publish(t, s, c, q, 10*(round+1)+1, 10)
	}
	awaitParked(t, h, q)
	do(t, s, c, q, 1000, subscribe(1))
	c.await(t, "deliveries", func() bool { return len(c.deliveries) == 40 })
	for i, d := range c.deliveries {
		if d.Seq != queue.Seq(i+1) || d.Redelivered {
			t.Fatalf("delivery %d: %+v", i, d)
		}
	}
}

// TestParksInUse: a queue with a consumer, an unsettled message or a message that is due soon goes on running.
func TestParksInUse(t *testing.T) {
	h := openHost(t, t.TempDir(), parksSoon)
	idle := declare(t, h, "idle", true)
	soon := declareWith(t, h, "soon", amqp.Table{{Key: "x-message-ttl", Value: amqp.Int64(1_000_000)}})
	late := declareWith(t, h, "late", amqp.Table{{Key: "x-message-ttl", Value: amqp.Int64(7_200_000)}})
	used, held := declare(t, h, "used", true), declare(t, h, "held", true)
	c := newRecorder()
	s := h.OpenSession(c)
	for i, q := range []meta.QueueID{idle, soon, late, used, held} {
		publish(t, s, c, q, 1+i, 1)
	}
	do(t, s, c, used, 100, subscribe(1))
	do(t, s, c, held, 101, queue.Command{Op: queue.OpGet})
	awaitParked(t, h, idle)
	awaitParked(t, h, late)
	publish(t, s, c, idle, 10, 1)
	awaitParked(t, h, idle) // all others have been looked at meanwhile
	for name, q := range map[string]meta.QueueID{"soon": soon, "used": used, "held": held} {
		if h.present(q) == nil {
			t.Errorf("%s is parked", name)
		}
	}
	s.Close(func(meta.QueueID) uint64 { return 0 }, 200)
	awaitParked(t, h, used)
	awaitParked(t, h, held)
}

// TestParkedQueueIsDeleted: nothing of it stays.
func TestParkedQueueIsDeleted(t *testing.T) {
	path := t.TempDir()
	h := openHost(t, path, parksSoon)
	c := newRecorder()
	for round := range 2 {
		q := declare(t, h, "q", true)
		s := h.OpenSession(c)
		publish(t, s, c, q, 1+10*round, 10)
		awaitParked(t, h, q)
		if round == 1 {
			stopHost(h)
			h = openHost(t, path, parksSoon)
		}
		if res, err := h.DeleteQueue(context.Background(), q, 0); err != nil || res.Messages != 10 {
			t.Fatalf("delete: %+v %v", res, err)
		}
		until(t, "the data is removed", func() bool { _, err := os.Stat(queueDir(h, q)); return errors.Is(err, os.ErrNotExist) })
		if r := removeReplicas(h, q); r != nil {
			t.Error(r)
		}
	}
}

// TestDamagedWordOfParkingStartsTheQueue: what cannot be read is no reason to leave a queue alone.
func TestDamagedWordOfParkingStartsTheQueue(t *testing.T) {
	path := t.TempDir()
	h := openHost(t, path, parksSoon)
	q := declare(t, h, "q", true)
	c := newRecorder()
	s := h.OpenSession(c)
	publish(t, s, c, q, 1, 10)
	awaitParked(t, h, q)
	stopHost(h)
	name := filepath.Join(queueDir(h, q), restedName)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	h = openHost(t, path)
	until(t, "the queue runs", func() bool { st, _ := h.QueueStatus(q); return st.State == StateRunning && st.Counts.Ready == 10 })
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there still: %v", err)
	}
}

// TestRestedFile: what is written is read, whatever is cut off is refused, and numbers of later versions are left out.
func TestRestedFile(t *testing.T) {
	r := &rested{index: 1, term: 2, leader: 3, nextDelayed: 4, due: 5, configVersion: 6, since: 7, diskBytes: 8}
	for i, n := range r.counts.Numbers() {
		*n = uint64(100 + i)
	}
	r.counts.NextSeq = 9
	data := r.append(nil)
	got, err := readRested("", data)
	if err != nil || *got != *r {
		t.Fatalf("%+v %v", got, err)
	}
	for n := range data {
		if _, err := readRested("", data[:n]); err == nil {
			t.Fatalf("%d of %d bytes are read", n, len(data))
		}
	}
}

// TestParkedWakes: when a queue must run again follows from how it was left and from its present configuration.
func TestParkedWakes(t *testing.T) {
	r := rested{due: 5_000, since: 1_000, configVersion: 1}
	full := r
	full.counts.Ready = 1
	for _, tt := range []struct {
		name string
		r    rested
		cfg  queue.Config
		want int64
	}{
		{"due", r, queue.Config{Version: 1}, 5_000},
		{"unused", r, queue.Config{Version: 1, Expires: queue.LimitOf(3_000)}, 4_000},
		{"unused later", r, queue.Config{Version: 1, Expires: queue.LimitOf(9_000)}, 5_000},
		{"not empty", full, queue.Config{Version: 1, Expires: queue.LimitOf(3_000), ExpiresIfEmpty: true}, 5_000},
		{"a limit that it had", full, queue.Config{Version: 1, MessageTTL: queue.LimitOf(1)}, 5_000},
		{"a new limit", full, queue.Config{Version: 2, MessageTTL: queue.LimitOf(1)}, 1},
		{"a new limit of nothing", r, queue.Config{Version: 2, MaxLength: queue.LimitOf(1)}, 5_000},
		{"another new configuration", full, queue.Config{Version: 2, DeadLetter: true}, 5_000},
	} {
		if got := tt.r.wakesAt(&tt.cfg); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

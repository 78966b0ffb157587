package quorum

import (
	"context"
	"testing"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
)

// deleted makes a queue and deletes it, so that its id is that of one that is gone.
func deleted(t *testing.T, h *Host, name string) queue.QueueID {
	t.Helper()
	q := declare(t, h, name, true)
	if _, err := h.DeleteQueue(context.Background(), q, 0); err != nil {
		t.Fatal(err)
	}
	return queue.QueueID(q)
}

// runningQueue starts a queue and returns what runs it.
func runningQueue(t *testing.T, h *Host, q meta.QueueID) runner {
	t.Helper()
	run, err := h.running(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func letter() []byte {
	return queue.AppendCommand(nil, &queue.Command{Op: queue.OpEnqueue, BodyBytes: 1, Envelope: []byte("x")})
}

// TestLongGoneSourcesAreForgotten: a queue keeps what it knows of another one's outbox for an hour after that is gone, and no longer. One that lives stays.
func TestLongGoneSourcesAreForgotten(t *testing.T) {
	h := openHost(t, t.TempDir())
	target, lives := declare(t, h, "target", true), declare(t, h, "lives", true)
	gone := deleted(t, h, "gone")
	run := runningQueue(t, h, target)
	for _, source := range []queue.QueueID{gone, queue.QueueID(lives)} {
		if reply, err := run.command(&queue.Command{Op: queue.OpRun, Peer: source, PeerEpoch: 1, From: 1, Envelope: letter()}); err != nil || reply.A != 1 {
			t.Fatal(reply, err)
		}
	}
	known := func() int {
		r := run.core()
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.m.Sources(nil))
	}
	var s sources
	h.forgetSources(run, &s)
	if len(s.gone) != 1 || known() != 2 {
		t.Fatalf("at once: %v of %d", s.gone, known())
	}
	s.looked, s.gone[queue.Source{Queue: gone, Epoch: 1}] = 0, h.clock.monotonicMillis()-limits.ForgetMillis
	h.forgetSources(run, &s)
	until(t, "one is forgotten", func() bool { return known() == 1 })
	s.looked = 0
	h.forgetSources(run, &s)
	if len(s.gone) != 0 {
		t.Errorf("still looked after: %v", s.gone)
	}
}

// TestLanesOfGoneTargetsMakeRoom: the outbox has lanes of queues that were deleted when nothing waited for them. They go when there is no room for others.
func TestLanesOfGoneTargetsMakeRoom(t *testing.T) {
	h := openHost(t, t.TempDir())
	q := declare(t, h, "q", true)
	lives := queue.QueueID(declare(t, h, "lives", true))
	gone := deleted(t, h, "gone")
	run := runningQueue(t, h, q)
	command := func(cmd queue.Command) queue.Reply {
		reply, err := run.command(&cmd)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	command(queue.Command{Op: queue.OpConfigure, Config: queue.Config{Version: 100, MessageTTL: queue.LimitOf(0), DeadLetter: true}})
	command(queue.Command{Op: queue.OpRun, Peer: lives, PeerEpoch: 1, From: 1, Envelope: letter()})
	until(t, "it is resolved", func() bool {
		return command(queue.Command{Op: queue.OpResolve, Envelope: queue.AppendTargets(nil, 1, []queue.QueueID{gone, lives})}).A == 1
	})
	for _, target := range []queue.QueueID{gone, lives} {
		command(queue.Command{Op: queue.OpDone, Peer: target, To: 1})
	}
	lanes := func() int {
		r := run.core()
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.m.IdleLanes(nil))
	}
	v := run.(*group).mover
	if lanes() != 2 {
		t.Fatalf("%d lanes", lanes())
	}
	if err := v.dropLanes(h.Catalogue().View); err != errAgain || lanes() != 1 {
		t.Errorf("%v, %d lanes are left", err, lanes())
	}
	if err := v.dropLanes(h.Catalogue().View); err != errLanes || lanes() != 1 {
		t.Errorf("%v, %d lanes are left", err, lanes())
	}
}

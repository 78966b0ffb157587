package quorum

import (
	"testing"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
)

// newTestLeases makes the leases of node 1, which leads three voters in term 7 since time 1000.
func newTestLeases() (l *leases, now *int64, voters []meta.NodeID) {
	now = new(int64)
	*now = 1000
	h := &Host{node: 1, clock: newClock(func() int64 { return *now }, nil)}
	l = newLeases(h)
	voters = []meta.NodeID{1, 2, 3}
	l.lead(true, 7, voters)
	l.inaugurated(5)
	return l, now, voters
}

func (l *leases) leased() bool { return l.host.clock.leaseMillis() < l.until.Load() }

// TestRequestsFromBeforeAPauseGiveNoLease: requests that lay in the sockets' buffers while the leader's process was stopped are no sign that the others still follow it.
func TestRequestsFromBeforeAPauseGiveNoLease(t *testing.T) {
	l, now, voters := newTestLeases()
	e2, granted, _ := l.ask(2, 5, echo{}, voters)
	if granted || l.leased() {
		t.Fatal("a lease before anybody answered the leader")
	}
	if e2, granted, _ = l.ask(2, 5, e2, voters); !granted || !l.leased() {
		t.Fatal("no lease though a majority answers")
	}
	e3, _, _ := l.ask(3, 5, echo{}, voters)
	*now += limits.DeadMillis + limits.LeaseGrantMillis
	for node, e := range map[meta.NodeID]echo{2: e2, 3: e3} {
		if _, granted, err := l.ask(node, 5, e, voters); granted || err != nil || l.leased() {
			t.Errorf("the request of node %d from before the pause: granted %t (%v), the leader has a lease: %t", node, granted, err, l.leased())
		}
	}
}

// TestEchoOfAnotherTermCounts would be a lease from a clock that is not this leader's.
func TestEchoOfAnotherTermCounts(t *testing.T) {
	l, _, voters := newTestLeases()
	if _, granted, _ := l.ask(2, 5, echo{term: 6, at: 999_999}, voters); granted || l.leased() {
		t.Error("the echo of a former leader gave a lease")
	}
}

// TestNodeBehindAnAnsweredWriteGetsALease would let it route past what somebody was told of.
func TestNodeBehindAnAnsweredWriteGetsALease(t *testing.T) {
	l, _, voters := newTestLeases()
	e, _, _ := l.ask(2, 5, echo{}, voters)
	if _, granted, _ := l.ask(2, 4, e, voters); !granted {
		t.Error("the index of a node went back")
	}
	e, _, _ = l.ask(3, 4, echo{}, voters)
	if _, granted, _ := l.ask(3, 4, e, voters); granted {
		t.Error("a node that is behind got a lease")
	}
}

// TestSleeperFindsOthersDead: a leader that was stopped counts the others' silence from its wake-up.
func TestSleeperFindsOthersDead(t *testing.T) {
	l, now, voters := newTestLeases()
	l.ask(2, 5, echo{}, voters)
	*now += 10 * limits.DeadMillis
	l.woke()
	if silent := *now - l.silentSince(2); silent > 0 {
		t.Errorf("node 2 is silent for %d ms", silent)
	}
}

package quorumtest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/message"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// asleep watches messages that sleep in one queue and are to be ready in another, which may be the same.
type asleep struct {
	c              *Cluster
	name           string
	source, target meta.QueueID
	// due is when each should be ready at the earliest and at the latest, by the right clock.
	due []struct{ first, last time.Time }
	// leaders are who led the two queues when it was looked last, changed when that was seen.
	leaders [2]*Node
	changed time.Time
	// settles is how long after that not all that is due has to be ready.
	settles time.Duration
	// ready is how many were ready at last.
	ready int
}

// lateMost is how late a message may be, and how long a new leader may take before it has ready what was due.
const lateMost = 100 * time.Millisecond

// schedule publishes messages that are to be ready in so many steps.
func (s *asleep) schedule(p *post, many int, step time.Duration) {
	s.c.T.Helper()
	began := time.Now()
	for n := range many {
		env := message.Append(nil, &message.Envelope{RoutingKey: []byte("k"), Properties: []byte{0, 0}, Body: strconv.AppendInt(nil, int64(len(s.due)), 10)})
		wait := time.Duration(n*7919%many+1) * step // in any order
		cmd := queue.Command{Op: queue.OpEnqueue, Flags: queue.FlagPersistent | queue.FlagDelay, Delay: uint64(wait.Milliseconds()), BodyBytes: 8, Envelope: env}
		if err := p.session.Submit(s.source, &cmd, uint64(n+1)); err != nil {
			s.c.T.Fatal(err)
		}
		s.due = append(s.due, struct{ first, last time.Time }{began.Add(wait), began.Add(wait)})
	}
	p.session.Flush()
	s.c.Until(5*time.Second, "all is confirmed", func() bool { return p.count(&p.okay) == many })
	for i := len(s.due) - many; i < len(s.due); i++ {
		s.due[i].last = s.due[i].last.Add(time.Since(began))
	}
}

// look holds the queue to having ready what is due, as far as clocks may be ahead or behind. What leads a queue and is paused serves nobody.
func (s *asleep) look(ahead, behind time.Duration, paused *Node) {
	now := time.Now()
	leaders := [2]*Node{s.c.Leader(s.source), s.c.Leader(s.target)}
	if leaders != s.leaders {
		s.leaders, s.changed = leaders, now
	}
	for i, q := range []meta.QueueID{s.source, s.target} {
		n := leaders[i]
		if n == nil || n == paused {
			s.changed = now
			return
		}
		if st, ok := n.Host().QueueStatus(q); !ok || st.Leader != n.ID {
			s.changed = now
			return
		}
	}
	st, _ := leaders[1].Host().QueueStatus(s.target)
	read := time.Now() // asking takes time if who is asked asks somebody who does not answer
	least, most := 0, 0
	for _, d := range s.due {
		if now.After(d.last.Add(behind + lateMost)) {
			least++
		}
		if !read.Before(d.first.Add(-ahead)) {
			most++
		}
	}
	s.ready = int(st.Counts.Ready)
	if s.ready < least && now.Sub(s.changed) >= s.settles || s.ready > most {
		s.c.Books.violate("%v: %s: %d are ready, want %d to %d of %d", s.c.Elapsed(), s.name, s.ready, least, most, len(s.due))
	}
}

// TestSleepersComeEarlyLateOrTwice: messages wait, in a queue and in the relay of an exchange, while the leader of where they wait dies, is paused, and comes back with a clock that is wrong by seconds, and
// while the whole cluster loses its power. Each becomes ready once, when it is due.
func TestSleepersComeEarlyLateOrTwice(t *testing.T) {
	const wrong, slack = 3 * time.Second, 30 * time.Millisecond
	Run(t, Options{Nodes: 4, Latency: time.Millisecond, CheckpointLogBytes: 8 << 10, Ahead: []time.Duration{0, wrong, -wrong}}, func(c *Cluster) {
		relay, target, plain := c.delayedExchange("passed", "fanout", false), c.declareWith("target", nil), c.declareWith("plain", nil)
		c.bindTo("passed", "target")
		for _, q := range []meta.QueueID{relay, target, plain} {
			c.wake(q)
		}
		c.Pass(time.Minute) // clocks are led together
		streams := []*asleep{{c: c, name: "queue", settles: lateMost, source: plain, target: plain}, {c: c, name: "exchange", settles: lateMost + limits.MoverRetryMillis*time.Millisecond, source: relay, target: target}}
		schedule := func(many int, step time.Duration) {
			for _, s := range streams {
				s.schedule(c.newPost(c.Node(4)), many, step)
			}
		}
		watch := func(d, ahead, behind time.Duration, paused *Node) {
			for end := time.Now().Add(d); time.Now().Before(end); c.Pass(10 * time.Millisecond) {
				for _, s := range streams {
					s.look(ahead, behind, paused)
				}
			}
		}
		for round := range 4 {
			schedule(150, 200*time.Millisecond) // for 30 s
			watch(3*time.Second, slack, slack, nil)
			victim := c.AwaitLeader(streams[round%2].source)
			if round < 2 {
				victim.Kill()
				watch(5*time.Second, slack, slack, nil)
				victim.Start() // with its wrong clock, and does not lead
				watch(time.Minute, slack, slack, nil)
				continue
			}
			c.Pause(victim)
			watch(5*time.Second, slack, slack, victim)
			c.Heal()
			watch(time.Minute, slack, slack, nil)
		}
		schedule(150, 200*time.Millisecond)
		watch(4*time.Second, slack, slack, nil)
		for _, n := range c.Nodes {
			n.PowerOff()
		}
		c.Pass(3 * time.Second)
		for _, n := range c.Nodes {
			n.PowerOn()
			n.Begin()
		}
		watch(time.Minute, wrong+slack, wrong+slack, nil) // who leads goes by its own clock at first
		for _, s := range streams {
			s.end()
		}
	})
}

// end holds the target to having every message once.
func (s *asleep) end() {
	s.c.T.Helper()
	times := make(map[int]int)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := s.c.AwaitLeader(s.target).Host().Peek(ctx, s.target, quorum.Look{Count: 2 * len(s.due)}, s.c.counting(times)); err != nil {
		s.c.T.Fatal(err)
	}
	for n := range s.due {
		if times[n] != 1 {
			s.c.Books.violate("%s: message %d is there %d times", s.name, n, times[n])
		}
	}
	s.c.sound()
}

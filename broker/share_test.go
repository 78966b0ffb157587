package broker

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/warrenmq/warren/meta"
)

// simQueue is a queue as far as a share can tell: it has messages, a limit, and mail from and to the channel that is under way.
type simQueue struct {
	part      part
	ready     int
	unsettled int
	limit     int
	marked    bool // has said that it wants more
	silent    bool
	in        []simCommand
	out       []simEvent
}

type simCommand struct {
	limit, settle, fresh int // one of them, -1 if it is another
	serial               uint64
}

type simEvent struct {
	kind   byte // delivery, ready, answer
	n      int
	serial uint64
}

// sim is a channel over some queues.
type sim struct {
	*rand.Rand
	share   share
	queues  []*simQueue
	now     uint32
	surplus []*simQueue
	trace   []string
}

func (s *sim) log(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

// give is credit.go's goroutine.
func (s *sim) give() {
	for _, p := range s.share.changes(s.now) {
		q := s.queues[p.queue]
		s.log("%d: tell queue %d: %d (total %d charged %d free %d left %d; here charged %d held %d)", s.now, p.queue, p.limit, s.share.total, s.share.charged, s.share.free(), s.share.left(), p.charged, p.held)
		q.in = append(q.in, simCommand{limit: p.limit, settle: -1, fresh: -1, serial: p.told})
	}
	if s.share.settled() {
		for _, q := range s.surplus {
			q.in = append(q.in, simCommand{limit: -1, settle: -1, fresh: 1})
		}
		s.surplus = nil
	}
}

// assign is what the machine does after each command.
func (q *simQueue) assign() {
	for q.ready > 0 && q.unsettled < q.limit {
		q.ready--
		q.unsettled++
		q.out = append(q.out, simEvent{kind: 'd'})
	}
}

func (q *simQueue) after() {
	q.assign()
	if q.ready > 0 && !q.marked {
		q.marked = true
		q.out = append(q.out, simEvent{kind: 'r', n: q.ready})
	}
}

func (q *simQueue) apply(c simCommand) {
	switch {
	case c.fresh >= 0:
		q.unsettled--
		q.ready++
	case c.settle >= 0:
		q.unsettled -= c.settle
	default:
		q.limit, q.marked = c.limit, false
		q.assign()
		n := 0
		if q.ready > 0 {
			q.marked, n = true, q.ready
		}
		q.out = append(q.out, simEvent{kind: 'a', n: n, serial: c.serial})
	}
	q.after()
}

func (s *sim) take(q *simQueue) {
	e := q.out[0]
	q.out = q.out[1:]
	switch e.kind {
	case 'd':
		if s.share.full() {
			s.surplus = append(s.surplus, q)
		} else {
			q.part.charged++
			s.share.charged++
		}
	case 'r':
		s.share.want(&q.part, e.n)
	case 'a':
		s.share.answered(&q.part, e.serial, e.n)
	}
	s.give()
}

// ack settles n of the deliveries of a queue that the client has.
func (s *sim) ack(q *simQueue, n int) {
	q.part.charged -= n
	s.share.charged -= n
	q.in = append(q.in, simCommand{limit: -1, settle: n, fresh: -1})
	if s.share.hungry > 0 && len(s.share.parts) > 1 {
		s.give()
	}
}

// step lets something happen; quiet leaves out all that comes from outside.
func (s *sim) step(quiet bool) {
	q := s.queues[s.IntN(len(s.queues))]
	switch n := s.IntN(12); {
	case n < 4:
		if len(q.in) > 0 && !q.silent {
			c := q.in[0]
			q.in = q.in[1:]
			q.apply(c)
		}
	case n < 8:
		if len(q.out) > 0 {
			s.take(q)
		}
	case n == 8:
		s.now++
		for _, p := range s.share.parts {
			if s.share.isSilent(p, s.now) {
				s.give()
			}
		}
	case quiet:
	case n == 9:
		q.ready += 1 + s.IntN(4)
		q.after()
	case n == 10 && q.part.charged > 0:
		s.ack(q, 1+s.IntN(q.part.charged))
	case s.IntN(40) == 0:
		q.silent = !q.silent
	case s.IntN(60) == 0:
		s.share.total = 1 + s.IntN(6)
		s.log("limit %d", s.share.total)
		s.give()
	}
}

// check: the client never gets more than the limit; only a lowered limit leaves it with more.
func (s *sim) check(before int) error {
	if s.share.charged > before && s.share.charged > s.share.total {
		return fmt.Errorf("the client has %d of %d", s.share.charged, s.share.total)
	}
	return nil
}

// rest runs until nothing is under way any more.
func (s *sim) rest() error {
	for i := 0; ; i++ {
		idle := true
		for _, q := range s.queues {
			idle = idle && len(q.in) == 0 && len(q.out) == 0
		}
		if idle {
			return nil
		}
		if i > 100_000 {
			return fmt.Errorf("it never comes to rest")
		}
		before := s.share.charged
		s.step(true)
		if err := s.check(before); err != nil {
			return err
		}
	}
}

// live: at rest no message waits while there is room for it.
func (s *sim) live() error {
	for i, q := range s.queues {
		if q.ready > 0 && s.share.charged < s.share.total {
			return fmt.Errorf("queue %d has %d messages, the client %d of %d", i, q.ready, s.share.charged, s.share.total)
		}
	}
	return nil
}

func (s *sim) run() error {
	for i := range s.queues {
		q := &simQueue{part: part{queue: meta.QueueID(i), takers: 1}}
		s.queues[i] = q
		s.share.parts = append(s.share.parts, &q.part)
	}
	s.give()
	for range 600 {
		before := s.share.charged
		s.step(false)
		if err := s.check(before); err != nil {
			return err
		}
	}
	// A queue that is silent holds nobody up but itself.
	down := s.queues[0]
	for i, q := range s.queues {
		q.silent = i == 0 && len(s.queues) > 1
	}
	for range 2000 {
		s.step(true)
	}
	for i, q := range s.queues[1:] {
		if q.ready > 0 && s.share.charged < s.share.total {
			return fmt.Errorf("queue %d waits for a silent one: the client has %d of %d", i+1, s.share.charged, s.share.total)
		}
	}
	down.silent = false
	if err := s.rest(); err != nil {
		return err
	}
	if err := s.live(); err != nil {
		return err
	}
	for round := 0; ; round++ {
		held := 0
		for _, q := range s.queues {
			held += q.ready + q.part.charged
			if q.part.charged > 0 {
				s.ack(q, 1)
			}
			if err := s.rest(); err != nil {
				return err
			}
			if err := s.live(); err != nil {
				return err
			}
		}
		if held == 0 {
			return nil
		}
		if round > 10_000 {
			return fmt.Errorf("it is never drained")
		}
	}
}

// TestShare holds shares to what they promise over random histories: the limit is never exceeded, whatever is under way, and at rest nothing waits that has room.
func TestShare(t *testing.T) {
	for seed := range uint64(3000) {
		s := &sim{Rand: rand.New(rand.NewPCG(seed, 7))}
		s.queues = make([]*simQueue, 1+s.IntN(4))
		s.share.total = 1 + s.IntN(6)
		if err := s.run(); err != nil {
			for _, l := range s.trace[max(0, len(s.trace)-40):] {
				t.Log(l)
			}
			for i, q := range s.queues {
				t.Logf("queue %d: %+v", i, *q)
			}
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

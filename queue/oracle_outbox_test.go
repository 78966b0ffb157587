package queue

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/warrenmq/warren/internal/codec"
)

// This part of the oracle is about the outbox: what leaves for other queues, and what comes from theirs.

type oLane struct {
	target  QueueID
	done    uint64
	numbers []uint64
}

type oMark struct {
	source QueueID
	epoch  uint64
}

// parcel returns the message with that number in the outbox, nil if it is not there (any more).
func (o *oracle) parcel(n uint64) *oMessage {
	for _, x := range o.messages {
		if x.place == oDead && x.n == n {
			return x
		}
	}
	return nil
}

// sent lists what is in the outbox by its number.
func (o *oracle) sent() []*oMessage {
	xs := o.in(oDead)
	slices.SortFunc(xs, func(a, b *oMessage) int { return cmp.Compare(a.n, b.n) })
	return xs
}

// unresolved lists the numbers of those without targets.
func (o *oracle) unresolved() (list []uint64) {
	for _, x := range o.sent() {
		if x.left == 0 {
			list = append(list, x.n)
		}
	}
	return list
}

func (o *oracle) resolve(list []byte) (reply Reply) {
	for r := codec.NewReader(list); r.Len() > 0; {
		n := r.Uvarint()
		targets := map[QueueID]bool{}
		for range r.Count(1) {
			targets[QueueID(r.Uvarint())] = true
		}
		x := o.parcel(n)
		if x == nil || x.left > 0 {
			continue
		}
		all := len(o.lanes)
		for t := range targets {
			if o.lanes[t] == nil {
				all++
			}
		}
		if all > o.b.lanes {
			reply.Code = CodeLimit
			return reply
		}
		reply.A++
		if len(targets) == 0 {
			o.remove(x)
			o.release(x.seq)
			continue
		}
		x.left = len(targets)
		for t := range targets {
			if o.lanes[t] == nil {
				o.lanes[t] = &oLane{target: t}
			}
			o.lanes[t].numbers = append(o.lanes[t].numbers, n)
		}
	}
	return reply
}

func (o *oracle) doneWith(target QueueID, to uint64) Reply {
	l := o.lanes[target]
	if l == nil {
		return Reply{Code: CodeStale}
	}
	for budget := o.b.returns; budget > 0 && len(l.numbers) > 0 && l.done < to; budget-- {
		x := o.parcel(l.numbers[0])
		l.numbers = l.numbers[1:]
		l.done++
		if x.left--; x.left > 0 {
			continue
		}
		if to == DoneGone && x.reason.isMove() && !o.cfg.Draining {
			x.place, x.holds = oReady, false
			continue
		}
		o.remove(x)
		o.release(x.seq)
	}
	if len(l.numbers) == 0 && to == DoneGone {
		delete(o.lanes, target)
	}
	return Reply{A: l.done}
}

func (o *oracle) runOf(c *Command) Reply {
	id := oMark{c.Peer, c.PeerEpoch}
	last, known := o.marks[id]
	switch {
	case o.sealed:
		return Reply{Code: CodeSealed, A: last}
	case c.From > last+1:
		return Reply{Code: CodeGap, A: last}
	case !known && len(o.marks) >= o.b.marks:
		return Reply{Code: CodeLimit}
	}
	o.marks[id] = last
	rest := c.Envelope
	for t, index := c.From, uint32(0); len(rest) > 0; t, index = t+1, index+1 {
		var e Command
		rest, _ = DecodeCommand(rest, &e)
		if t <= last {
			continue
		}
		if reply := o.enqueue(&e, index, true); reply.Code != CodeOK && reply.Code != CodeDuplicate {
			return Reply{Code: reply.Code, A: o.marks[id]}
		}
		o.marks[id] = t
		o.after()
	}
	return Reply{A: o.marks[id]}
}

func (o *oracle) outboxString() string {
	var parts []string
	for _, x := range o.sent() {
		parts = append(parts, fmt.Sprintf("%d:#%d %s", x.n, x.seq, x.reason))
	}
	var targets []QueueID
	for t := range o.lanes {
		targets = append(targets, t)
	}
	slices.Sort(targets)
	for _, t := range targets {
		parts = append(parts, fmt.Sprintf("to %d from %d: %v", t, o.lanes[t].done+1, o.lanes[t].numbers))
	}
	var marks []oMark
	for k := range o.marks {
		marks = append(marks, k)
	}
	sort.Slice(marks, func(i, j int) bool {
		return marks[i].source < marks[j].source || marks[i].source == marks[j].source && marks[i].epoch < marks[j].epoch
	})
	for _, k := range marks {
		parts = append(parts, fmt.Sprintf("of %d.%d: %d", k.source, k.epoch, o.marks[k]))
	}
	return strings.Join(parts, "; ")
}

// outboxString tells what waits in the outbox and what came of others.
func (m *Machine) outboxString() string {
	var parts []string
	m.outbox.each(func(p *parcel) { parts = append(parts, fmt.Sprintf("%d:#%d %s", p.n, p.record.seq, p.reason)) })
	for _, l := range m.outbox.lanes {
		parts = append(parts, fmt.Sprintf("to %d from %d: %v", l.target, l.done+1, l.parcels))
	}
	for _, k := range m.marks {
		parts = append(parts, fmt.Sprintf("of %d.%d: %d", k.source, k.epoch, k.last))
	}
	return strings.Join(parts, "; ")
}

// outboxCommand makes a random command about outboxes.
func (g *generator) outboxCommand() Command {
	queues := []QueueID{100, 101, 102, 103}
	switch g.IntN(3) {
	case 0:
		c := Command{Op: OpResolve}
		numbers := g.o.unresolved()
		for range 1 + g.IntN(4) {
			n := uint64(g.IntN(int(g.o.parcels) + 2))
			if len(numbers) > 0 && g.IntN(5) > 0 {
				n = numbers[g.IntN(len(numbers))]
			}
			var targets []QueueID
			for range g.IntN(4) {
				targets = append(targets, queues[g.IntN(len(queues))])
			}
			c.Envelope = AppendTargets(c.Envelope, n, targets)
		}
		return c
	case 1:
		c := Command{Op: OpDone, Peer: queues[g.IntN(len(queues))]}
		if l := g.o.lanes[c.Peer]; l != nil {
			c.To = l.done + uint64(g.IntN(len(l.numbers)+2))
		}
		if g.IntN(8) == 0 {
			c.To = DoneGone
		}
		return c
	}
	c := Command{Op: OpRun, Peer: queues[g.IntN(len(queues))], PeerEpoch: 1 + uint64(g.IntN(6)/5)}
	if g.IntN(12) == 0 {
		c.Op = OpForget
		return c
	}
	c.From = max(1, g.o.marks[oMark{c.Peer, c.PeerEpoch}]+uint64(g.IntN(8)/7)+1-uint64(g.IntN(4)/3))
	for range 1 + g.IntN(3) {
		e := Command{Op: OpEnqueue, BodyBytes: uint32(g.IntN(12)), Flags: Flags(g.IntN(2))}
		g.identify(&e)
		c.Envelope = AppendCommand(c.Envelope, &e)
	}
	return c
}

package queue

import (
	"slices"
	"sort"
)

// This part of the oracle is about deliveries that are kept for too long.

// start gives a delivery its deadline.
func (o *oracle) start(x *oMessage, own Limit) {
	x.deadline = 0
	if own == 0 {
		own = o.cfg.ConsumerTimeout
	}
	n, ok := own.Get()
	if !ok || n == 0 || x.noAck {
		return
	}
	x.deadline = o.seen + int64(n)
	if s := x.session; s.check == 0 || x.deadline < s.check {
		s.check = x.deadline
	}
}

// timeOut looks through the sessions whose turn it is.
func (o *oracle) timeOut() {
	for o.returns > 0 {
		var due []*oSession
		for _, s := range o.sessions {
			if s.check != 0 && s.check <= o.seen {
				due = append(due, s)
			}
		}
		if len(due) == 0 {
			return
		}
		sort.Slice(due, func(i, j int) bool {
			a, b := due[i], due[j]
			if a.check != b.check {
				return a.check < b.check
			}
			return a.pipeline.id.less(b.pipeline.id) || a.pipeline == b.pipeline && a.id < b.id
		})
		o.lookThrough(due[0])
	}
}

func (o *oracle) lookThrough(s *oSession) {
	if s.tx != 0 {
		s.check = o.seen + 1000
		return
	}
	node, boot := s.pipeline.id.Node, s.pipeline.id.Boot.Counter
	for _, x := range o.outstanding(s, 1, s.lastD) {
		there := slices.ContainsFunc(o.consumers, func(k *oConsumer) bool { return k.session == s && k.id == x.consumer })
		if x.deadline == 0 || x.deadline > o.seen || !there {
			continue
		}
		o.emit(Effect{Kind: KindCancel, Node: node, BootCounter: boot, Session: s.id, Consumer: x.consumer})
		o.removeConsumers(func(k *oConsumer) bool { return k.session == s && k.id == x.consumer })
		if o.cfg.SingleActive {
			for _, y := range o.outstanding(s, 1, s.lastD) {
				if y.consumer == x.consumer {
					y.deadline = o.seen
				}
			}
		}
	}
	least := int64(0)
	for _, x := range o.outstanding(s, 1, s.lastD) {
		switch {
		case x.deadline == 0:
		case x.deadline > o.seen:
			if least == 0 || x.deadline < least {
				least = x.deadline
			}
		case o.returns == 0:
			return
		default:
			o.returns--
			s.lostSome = true
			o.counts.TimedOut++
			o.emit(Effect{Kind: KindTimedOut, Node: node, BootCounter: boot, Session: s.id, Consumer: x.consumer, D: x.d, Seq: x.seq})
			if o.cfg.CountReturns {
				x.failures++
				o.putBack(x, failure)
			} else {
				o.putBack(x, returned)
			}
			o.takeTurns()
		}
	}
	if s.check = least; least != 0 {
		s.check = max(least, o.seen+1000)
	}
}

package queue

// goesNext is the ready message that goes first: that which counts as the highest priority, of equals the oldest.
func (o *oracle) goesNext(ready []*oMessage) *oMessage {
	step, ages := o.cfg.PriorityAging.Get()
	rank := func(x *oMessage) uint64 {
		r := uint64(x.priority)
		if ages && step > 0 {
			for waited := o.seen - x.born; waited >= int64(step) && r < uint64(o.cfg.PriorityMax); waited -= int64(step) {
				r++
			}
		}
		return r
	}
	best := ready[0]
	for _, x := range ready {
		if rank(x) > rank(best) || rank(x) == rank(best) && x.at < best.at {
			best = x
		}
	}
	return best
}

// retryDelay is how long a message waits that came back, the oracle's way.
func (o *oracle) retryDelay(x *oMessage) (delay uint64) {
	least := uint64(0)
	if n, ok := o.cfg.RetryMin.Get(); ok {
		least = n
	}
	most, bound := o.cfg.RetryMax.Get()
	factor, grows := o.cfg.RetryMultiplier.Get()
	list := o.cfg.RetrySchedule.Millis()
	switch {
	case len(list) > 0 && int(x.acquired) > len(list):
		delay = list[len(list)-1]
	case len(list) > 0:
		delay = list[x.acquired-1]
	case grows:
		delay = least
		for range x.acquired - 1 {
			if delay *= factor; bound && delay > most { // the histories are too short for more
				break
			}
		}
		if bound {
			delay = min(delay, most)
		}
	case bound:
		delay = min(least*max(1, uint64(x.failures)), most)
	default:
		delay = least
	}
	if percent, ok := o.cfg.RetryJitter.Get(); ok {
		delay -= chance(uint64(x.seq), x.acquired) % (delay*percent/100 + 1)
	}
	return delay
}

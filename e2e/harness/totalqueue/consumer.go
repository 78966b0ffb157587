package totalqueue

import "fmt"

// Delivery is what a client got.
type Delivery struct {
	// Body is the body as it arrived.
	Body []byte
	// MessageID is the message-id property; empty if the publisher set none.
	MessageID string
	// Redelivered is the broker's flag.
	Redelivered bool
}

// Consumer is one subscription of one queue: the first deliveries that it gets keep the order of each publisher.
type Consumer struct {
	ledger *Ledger
	queue  string
	last   map[string]uint64 // by publisher: the seq of the latest delivery whose order counts
	drain  bool
	order  []ID // of a drain: what came, in order
}

// Consumer begins a subscription of a queue. A reconnected client begins a new one.
func (l *Ledger) Consumer(queue string) *Consumer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue(queue)
	return &Consumer{ledger: l, queue: queue, last: map[string]uint64{}}
}

// Drain begins the subscription that empties a queue when nobody else uses it. As every message is then in its place, the order counts for redelivered
// messages too, and between publishers: what was confirmed before another one was attempted comes before it.
func (l *Ledger) Drain(queue string) *Consumer {
	c := l.Consumer(queue)
	c.drain = true
	return c
}

// Deliver notes a delivery. ok is false if the body names no message of this test.
func (c *Consumer) Deliver(d Delivery) (id ID, ok bool) {
	l := c.ledger
	id, err := Decode(d.Body)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong.Deliveries++
	if d.Redelivered {
		l.wrong.Redeliveries++
	}
	if err != nil {
		l.wrong.Corrupt.add("queue %s: %v", c.queue, err)
		return id, false
	}
	if d.MessageID != "" && d.MessageID != id.String() {
		l.wrong.Corrupt.add("queue %s: the body of %s came with the properties of %s", c.queue, id, d.MessageID)
	}
	s, why := l.sight(c.queue, id)
	if why != "" {
		l.wrong.Invented.add("queue %s: %s %s", c.queue, id, why)
		return id, false
	}
	s.times++
	if s.times > 1 && !d.Redelivered {
		l.wrong.Unflagged.add("queue %s: delivery %d of %s is not marked redelivered", c.queue, s.times, id)
	}
	c.checkOrder(id, d.Redelivered)
	return id, true
}

// sight finds the entry of a message in a queue, or says why there is none. The caller holds the lock.
func (l *Ledger) sight(queue string, id ID) (*sight, string) {
	p := l.publishers[id.Publisher]
	if p == nil || id.Seq > uint64(len(p.attempts)) {
		return nil, "was never published"
	}
	if p.attempts[id.Seq-1].answer == returned {
		return nil, "was returned as unroutable"
	}
	st := l.queue(queue).streams[id.Publisher]
	if st == nil {
		return nil, "was not published to this queue"
	}
	for uint64(len(st.sights)) < id.Seq {
		st.sights = append(st.sights, sight{})
	}
	return &st.sights[id.Seq-1], ""
}

// Describe tells what the ledger knows of a body in a queue, for the message of a failure.
func (l *Ledger) Describe(queue string, body []byte) string {
	id, err := Decode(body)
	if err != nil {
		return err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, why := l.sight(queue, id)
	if why != "" {
		return id.String() + " " + why
	}
	return fmt.Sprintf("%s, delivered %d times, acknowledged: %t", id, s.times, s.acked)
}

// checkOrder judges the place of a delivery among those of its publisher. The caller holds the lock.
func (c *Consumer) checkOrder(id ID, redelivered bool) {
	if c.drain {
		c.order = append(c.order, id)
	} else if redelivered {
		return
	}
	if last := c.last[id.Publisher]; id.Seq <= last {
		c.ledger.wrong.Reordered.add("queue %s: %s came after %s:%d", c.queue, id, id.Publisher, last)
		return
	}
	c.last[id.Publisher] = id.Seq
}

// Acked notes that the client acknowledged a message, or got it without having to.
func (c *Consumer) Acked(id ID) {
	l := c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, why := l.sight(c.queue, id); why == "" {
		s.acked = true
	}
}

// Close ends the subscription. For a drain it compares the order of the whole queue with the order of the publishes.
func (c *Consumer) Close() {
	l := c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	// Going back from the end, earliest is the smallest tick at which something behind was confirmed already.
	earliest, whose := ^uint64(0), ID{}
	for i := len(c.order) - 1; i >= 0; i-- {
		at := l.publishers[c.order[i].Publisher].attempts[c.order[i].Seq-1]
		if earliest < at.attemptedAt && whose.Publisher != c.order[i].Publisher {
			l.wrong.Reordered.add("queue %s: %s was confirmed before %s was published, and came after it", c.queue, whose, c.order[i])
		}
		if at.confirmedAt != 0 && at.confirmedAt < earliest {
			earliest, whose = at.confirmedAt, c.order[i]
		}
	}
	c.order = nil
}

package broker

import (
	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/queue"
)

// confirm is what a channel knows of its publishes. It is guarded by the channel's lock.
type confirm struct {
	on bool
	// base is the number of the last publish before confirm.select: the client counts from there.
	base uint64
	// publishes are those that not all of their queues have answered.
	publishes span[published]
	// Acks that no unanswered publish stands before: acked is the highest, ackedCount how many there are. Others stand in scattered.
	acked, ackedCount uint64
	scattered, nacks  []uint64
	queued            bool // stands in outbox.confirms
	// floor is the lowest publish among the span's stragglers of which the client was not told, 0 if there is none.
	floor uint64
	// immediates are the messages of publishes that may be returned.
	immediates map[uint64][]byte
}

// published is a publish on its way.
type published struct {
	bytes  uint32
	left   uint32 // queues that have not answered
	since  uint32 // tick, never 0
	failed bool   // a queue has refused it
	told   bool   // the client was told already: it took too long
	taken  bool   // a queue has taken it
	kept   bool   // stands in immediates: it is returned if no queue takes it
}

// ConfirmSelect turns confirms on. Doing so again changes nothing.
func (ch *channel) ConfirmSelect(m amqp.ConfirmSelect) error {
	if ch.transactional.Load() {
		return errTxToConfirm()
	}
	ch.mu.Lock()
	if f := &ch.confirm; !f.on {
		f.on = true
		f.base = f.publishes.last()
	}
	ch.mu.Unlock()
	ch.confirming = true
	ch.replyUnless(m.NoWait, &amqp.ConfirmSelectOk{})
	return nil
}

// expectAnswers registers a publish to as many queues and returns its number. With kept it is returned if none takes it.
func (ch *channel) expectAnswers(bytes, targets int, kept []byte) uint64 {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.stats.published++
	f := &ch.confirm
	stragglers := len(f.publishes.old)
	n := f.publishes.put(published{bytes: uint32(bytes), left: uint32(targets), since: ch.c.b.tick.Load(), kept: kept != nil})
	if kept != nil {
		if f.immediates == nil {
			f.immediates = make(map[uint64][]byte)
		}
		f.immediates[n] = kept
	}
	if len(f.publishes.old) > stragglers {
		f.findFloor()
	}
	return n
}

// publishAnswered takes the answer of one queue to a publish, for executors.
func (ch *channel) publishAnswered(n uint64, code queue.Code) {
	ch.mu.Lock()
	bytes := ch.publishAnsweredLocked(n, code)
	ch.wakeConfirms()
	ch.mu.Unlock()
	ch.c.answered(bytes, 1)
}

// publishAnsweredLocked takes the answer of one queue to a publish and returns the bytes that are not in flight any more. A queue that was deleted counts as
// one that has it, as in RabbitMQ, and so does one that had it before. Called with ch.mu held; wakeConfirms must follow.
func (ch *channel) publishAnsweredLocked(n uint64, code queue.Code) (bytes int64) {
	f := &ch.confirm
	p := f.publishes.at(n)
	if p == nil {
		return 0
	}
	p.left--
	has := code == queue.CodeOK || code == queue.CodeDuplicate
	p.taken = p.taken || has
	p.failed = p.failed || !has && code != queue.CodeGone && code != queue.CodeNoConsumers
	bytes = int64(p.bytes)
	if p.left > 0 {
		return bytes
	}
	told, ok := p.told, !p.failed
	if p.kept {
		if ok && !told && !p.taken && ch.state == chanOpen {
			ch.appendReturn(amqp.ReplyNoConsumers, f.immediates[n])
		}
		delete(f.immediates, n)
	}
	f.publishes.drop(n)
	if n == f.floor {
		f.findFloor()
	}
	if !told {
		ch.confirmed(n, ok)
	}
	return bytes
}

// confirmed notes that the client is to be told of publish n. Called with ch.mu held.
func (ch *channel) confirmed(n uint64, ok bool) {
	f := &ch.confirm
	switch {
	case !f.on || n <= f.base:
	case !ok:
		f.nacks = append(f.nacks, n)
	case f.settled(n):
		f.acked = max(f.acked, n)
		f.ackedCount++
	default:
		f.scattered = append(f.scattered, n)
	}
}

// wakeConfirms has the writer make confirms out if there are any. Called with ch.mu held.
func (ch *channel) wakeConfirms() {
	f := &ch.confirm
	if f.queued || f.ackedCount == 0 && len(f.scattered) == 0 && len(f.nacks) == 0 {
		return
	}
	f.queued = true
	o := &ch.c.out
	o.mu.Lock()
	if !o.sealed {
		o.confirms = append(o.confirms, ch)
		ch.c.wakeLocked()
	}
	o.mu.Unlock()
}

// makeConfirms appends the frames for what is confirmed by now: one for all up to the first unanswered publish, one each for others. The writer calls it.
func (ch *channel) makeConfirms() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.confirm.queued = false
	ch.appendConfirms()
}

// appendConfirms is makeConfirms with ch.mu held.
func (ch *channel) appendConfirms() {
	f := &ch.confirm
	if ch.state != chanOpen {
		f.acked, f.ackedCount, f.scattered, f.nacks = 0, 0, nil, nil
		return
	}
	o := &ch.c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sealed {
		return
	}
	buf := o.room()
	before := len(buf.b)
	for _, n := range f.nacks {
		m := amqp.BasicNack{DeliveryTag: n - f.base}
		buf.b = m.AppendFrame(buf.b, ch.number)
	}
	for _, n := range f.scattered {
		if f.settled(n) { // what stood before it was answered meanwhile
			f.acked = max(f.acked, n)
			f.ackedCount++
			continue
		}
		m := amqp.BasicAck{DeliveryTag: n - f.base}
		buf.b = m.AppendFrame(buf.b, ch.number)
	}
	if f.ackedCount > 0 {
		m := amqp.BasicAck{DeliveryTag: f.acked - f.base, Multiple: f.ackedCount > 1}
		buf.b = m.AppendFrame(buf.b, ch.number)
	}
	count := f.ackedCount + uint64(len(f.nacks))
	ch.c.b.totals.confirmed.Add(count)
	ch.stats.confirmed += count
	o.replies += len(buf.b) - before
	f.acked, f.ackedCount = 0, 0
	f.nacks, f.scattered = f.nacks[:0], f.scattered[:0]
}

// settled tells whether no publish up to n waits for an answer that the client has not got.
func (f *confirm) settled(n uint64) bool {
	return f.publishes.settled(n) && (f.floor == 0 || n < f.floor)
}

func (f *confirm) findFloor() {
	f.floor = 0
	for i := range f.publishes.old {
		if o := &f.publishes.old[i]; o.item != (published{}) && !o.item.told {
			f.floor = o.n
			return
		}
	}
}

// expirePublishes tells the client of publishes that took too long: they are not known to be stored. They stay in flight until their queues answer, for
// until then they take memory. Called by the watch with ch.mu held.
func (ch *channel) expirePublishes(now uint32) {
	f := &ch.confirm
	after := ticks(ch.c.b.opt.PublishTimeout)
	for f.floor != 0 {
		p := f.publishes.at(f.floor)
		if now-p.since < after {
			break
		}
		p.told = true
		ch.confirmed(f.floor, false)
		f.findFloor()
	}
	for {
		n, ok := f.publishes.first()
		if !ok {
			break
		}
		p := f.publishes.at(n)
		if now-p.since < after {
			break
		}
		p.told = true
		ch.confirmed(n, false)
		f.publishes.spill(n)
	}
	ch.wakeConfirms()
}

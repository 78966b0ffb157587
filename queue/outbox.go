package queue

import (
	"slices"
	"sort"

	"github.com/google/btree"

	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/internal/invariant"
)

// QueueID names a queue of the cluster, as the catalogue does.
type QueueID uint64

// parcel is a message that died, was moved or is relayed, and waits in the outbox. n counts the outbox's entries from 1 and is never reused. left is how many targets have not confirmed it; 0 until it is resolved.
type parcel struct {
	n      uint64
	record record
	died   int64 // in milliseconds
	left   uint32
	reason Reason
}

func byNumber(a, b parcel) bool { return a.n < b.n }

// lane is what goes to one target, numbered densely from 1 (PROTOCOL 4): t-1 of the parcel that is sent next stands in done, the numbers behind it in parcels.
type lane struct {
	target QueueID
	done   uint64
	// parcels are those of done+1, done+2, ...
	parcels []uint64
}

// outbox holds the messages that are to leave for other queues. They are no part of the queue for its users any more.
type outbox struct {
	last       uint64
	parcels    *btree.BTreeG[parcel] // by n; nil until it is needed
	unresolved *btree.BTreeG[uint64] // the n of those without targets
	lanes      []*lane               // by target; a lane stays, for its numbers go on
	seqs       seqSet
	sums       sums
	moving     uint64 // those that did not die
}

func (o *outbox) add(x *record, reason Reason, died int64) {
	o.last++
	o.put(parcel{n: o.last, record: *x, reason: reason, died: died})
}

func (o *outbox) put(p parcel) {
	if o.parcels == nil {
		o.parcels = newTree(byNumber)
		o.unresolved = newTree(btree.Less[uint64]())
	}
	o.parcels.ReplaceOrInsert(p)
	if p.left == 0 {
		o.unresolved.ReplaceOrInsert(p.n)
	}
	o.seqs.add(p.record.seq)
	o.sums.add(&p.record)
	if p.reason.isMove() {
		o.moving++
	}
}

func (o *outbox) each(visit func(p *parcel)) {
	if o.parcels != nil {
		o.parcels.Ascend(func(p parcel) bool {
			visit(&p)
			return true
		})
	}
}

// remove takes out a parcel that has nowhere to go any more.
func (o *outbox) remove(p *parcel) {
	o.parcels.Delete(parcel{n: p.n})
	o.seqs.remove(p.record.seq)
	o.sums.sub(&p.record)
	if p.reason.isMove() {
		o.moving--
	}
}

func (o *outbox) search(target QueueID) (int, bool) {
	i := sort.Search(len(o.lanes), func(i int) bool { return o.lanes[i].target >= target })
	return i, i < len(o.lanes) && o.lanes[i].target == target
}

// resolve carries out OpResolve. Who is resolved already stays as it is: the first word counts.
func (m *Machine) resolve(list []byte, out []Effect) (Reply, []Effect) {
	o := &m.outbox
	r := codec.NewReader(list)
	resolved := uint64(0)
	for r.Len() > 0 {
		n, count := r.Uvarint(), r.Count(1)
		targets := make([]QueueID, 0, count)
		for range count {
			targets = append(targets, QueueID(r.Uvarint()))
		}
		invariant.Check(r.Err() == nil, "a list of targets does not decode")
		if o.unresolved == nil || !o.unresolved.Has(n) {
			continue
		}
		slices.Sort(targets)
		targets = slices.Compact(targets)
		if !o.fit(targets, m.bounds.lanes) {
			return Reply{Code: CodeLimit, A: resolved}, out
		}
		resolved++
		o.unresolved.Delete(n)
		p, _ := o.parcels.Get(parcel{n: n})
		if len(targets) == 0 {
			o.remove(&p)
			out = m.release(p.record.seq, out)
			continue
		}
		p.left = uint32(len(targets))
		o.parcels.ReplaceOrInsert(p)
		for _, t := range targets {
			l := o.lane(t)
			l.parcels = append(l.parcels, n)
		}
	}
	return Reply{A: resolved}, out
}

// fit tells whether there is room for the lanes of all targets.
func (o *outbox) fit(targets []QueueID, most int) bool {
	lanes := len(o.lanes)
	for _, t := range targets {
		if _, ok := o.search(t); !ok {
			lanes++
		}
	}
	return lanes <= most
}

// lane returns the lane of a target, which it makes if there is none.
func (o *outbox) lane(target QueueID) *lane {
	i, ok := o.search(target)
	if !ok {
		o.lanes = slices.Insert(o.lanes, i, &lane{target: target})
	}
	return o.lanes[i]
}

// done carries out OpDone: the target has all up to t. A target that is gone gets no more: its lane goes, too, and what was moved is back where it was,
// but for its id.
func (m *Machine) done(target QueueID, t uint64, gone bool, out []Effect) (Reply, []Effect) {
	o := &m.outbox
	i, ok := o.search(target)
	if !ok {
		return Reply{Code: CodeStale}, out
	}
	l := o.lanes[i]
	n := uint64(len(l.parcels))
	if !gone {
		n = min(t-min(t, l.done), n)
	}
	n = min(n, uint64(m.bounds.returns)) // the rest with the next one
	for _, number := range l.parcels[:n] {
		p, _ := o.parcels.Get(parcel{n: number})
		if p.left--; p.left > 0 {
			o.parcels.ReplaceOrInsert(p)
			continue
		}
		o.remove(&p)
		if gone && p.reason.isMove() && !m.cfg.Draining && mutant != mutantMovedLostWithTarget {
			m.freeID(p.record.seq)
			m.ready.putBack(&p.record)
			continue
		}
		out = m.release(p.record.seq, out)
	}
	l.done += n
	l.parcels = l.parcels[n:]
	if len(l.parcels) == 0 {
		l.parcels = nil
		if gone {
			o.lanes = slices.Delete(o.lanes, i, i+1)
		}
	}
	return Reply{A: l.done}, out
}

// mark is the last message that came from another queue's outbox.
type mark struct {
	source      QueueID
	epoch, last uint64
}

// searchMark returns the place of the mark of a source, or where it belongs.
func (m *Machine) searchMark(source QueueID, epoch uint64) (int, bool) {
	i := sort.Search(len(m.marks), func(i int) bool {
		k := &m.marks[i]
		return k.source > source || k.source == source && k.epoch >= epoch
	})
	return i, i < len(m.marks) && m.marks[i].source == source && m.marks[i].epoch == epoch
}

// forget carries out OpForget.
func (m *Machine) forget(source QueueID, epoch uint64) Reply {
	i, ok := m.searchMark(source, epoch)
	if !ok {
		return Reply{Code: CodeStale}
	}
	m.marks = slices.Delete(m.marks, i, i+1)
	return Reply{}
}

// Source is a queue whose outbox came here.
type Source struct {
	Queue QueueID
	Epoch uint64
}

// Sources appends the queues whose outboxes this one remembers.
func (m *Machine) Sources(dst []Source) []Source {
	for i := range m.marks {
		dst = append(dst, Source{m.marks[i].source, m.marks[i].epoch})
	}
	return dst
}

// IdleLanes appends the targets for which nothing waits: their numbers are kept for what comes.
func (m *Machine) IdleLanes(dst []QueueID) []QueueID {
	for _, l := range m.outbox.lanes {
		if len(l.parcels) == 0 {
			dst = append(dst, l.target)
		}
	}
	return dst
}

// run carries out OpRun: messages From, From+1, ... of another queue's outbox. It takes the next ones, passes over what it has, and refuses a gap. A queue that is full takes as many as fit.
func (m *Machine) run(cmd *Command, out []Effect) (Reply, []Effect) {
	i, known := m.searchMark(cmd.Peer, cmd.PeerEpoch)
	last := uint64(0)
	if known {
		last = m.marks[i].last
	}
	switch {
	case m.sealed:
		return Reply{Code: CodeSealed, A: last}, out
	case cmd.From > last+1:
		return Reply{Code: CodeGap, A: last}, out
	case !known && len(m.marks) >= m.bounds.marks:
		return Reply{Code: CodeLimit}, out
	case !known:
		m.marks = slices.Insert(m.marks, i, mark{source: cmd.Peer, epoch: cmd.PeerEpoch})
	}
	code := CodeOK
	rest := cmd.Envelope
	for t, index := cmd.From, uint32(0); len(rest) > 0; t, index = t+1, index+1 {
		var err error
		if rest, err = DecodeCommand(rest, &m.cmd); err != nil || m.cmd.Op != OpEnqueue {
			invariant.Failf("message %d of a run: op %d, %v", t, m.cmd.Op, err)
		}
		if t <= last {
			continue
		}
		var reply Reply
		if reply, out = m.enqueue(&m.cmd, index, true, out); reply.Code != CodeOK && reply.Code != CodeDuplicate {
			code = reply.Code
			break
		}
		m.marks[i].last = t
		out = m.after(out)
	}
	m.cmd.Envelope = nil
	return Reply{Code: code, A: m.marks[i].last}, out
}

// Parcel is a message on its way, as the leader's mover sees it.
type Parcel struct {
	// N is its number in the outbox, Seq the message, whose body the shell has.
	N   uint64
	Seq Seq
	// Reason and DiedMillis tell of its death, or why and when it left.
	Reason     Reason
	DiedMillis int64
	Priority   uint8
	Persistent bool
}

func (p *parcel) public() Parcel {
	return Parcel{N: p.n, Seq: p.record.seq, Reason: p.reason, DiedMillis: p.died, Priority: p.record.priority, Persistent: p.record.flags&FlagPersistent != 0}
}

// Unresolved appends up to count parcels without targets with numbers above after, in order.
func (m *Machine) Unresolved(dst []Parcel, after uint64, count int) []Parcel {
	if m.outbox.unresolved == nil {
		return dst
	}
	m.outbox.unresolved.AscendGreaterOrEqual(after+1, func(n uint64) bool {
		if count--; count < 0 {
			return false
		}
		p, _ := m.outbox.parcels.Get(parcel{n: n})
		dst = append(dst, p.public())
		return true
	})
	return dst
}

// Targets appends the targets that messages of the outbox wait for.
func (m *Machine) Targets(dst []QueueID) []QueueID {
	for _, l := range m.outbox.lanes {
		if len(l.parcels) > 0 {
			dst = append(dst, l.target)
		}
	}
	return dst
}

// Lane appends up to count parcels for a target, in order, and returns the number t of the first.
func (m *Machine) Lane(dst []Parcel, target QueueID, count int) (t uint64, _ []Parcel) {
	i, ok := m.outbox.search(target)
	if !ok {
		return 0, dst
	}
	l := m.outbox.lanes[i]
	for _, n := range l.parcels[:min(count, len(l.parcels))] {
		p, _ := m.outbox.parcels.Get(parcel{n: n})
		dst = append(dst, p.public())
	}
	return l.done + 1, dst
}

// AppendTargets appends an entry of OpResolve's list.
func AppendTargets(dst []byte, n uint64, targets []QueueID) []byte {
	dst = codec.AppendUvarint(dst, n)
	dst = codec.AppendUvarint(dst, uint64(len(targets)))
	for _, t := range targets {
		dst = codec.AppendUvarint(dst, uint64(t))
	}
	return dst
}

// validTargets tells whether a list of OpResolve is whole and no larger than one entry may be.
func validTargets(list []byte) bool {
	r := codec.NewReader(list)
	work := 0
	for r.Len() > 0 {
		r.Uvarint()
		n := r.Count(1)
		for range n {
			r.Uvarint()
		}
		work += 1 + n
	}
	return r.Err() == nil && work <= resolveMax
}

// validRun tells whether the messages of OpRun are whole.
func validRun(list []byte) bool {
	var c Command
	for n := 0; len(list) > 0; n++ {
		var err error
		if list, err = DecodeCommand(list, &c); err != nil || c.Op != OpEnqueue || n == runMessagesMax {
			return false
		}
	}
	return true
}

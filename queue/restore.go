package queue

import (
	"errors"
	"fmt"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
)

// ErrSnapshotVersion says that a snapshot was written by a newer program.
var ErrSnapshotVersion = errors.New("queue: snapshot of an unknown version")

// errSnapshot says that a snapshot describes no state that a machine can be in.
var errSnapshot = errors.New("queue: snapshot is damaged")

// Restore makes a machine from a snapshot, which must fill src; it keeps nothing of src. The error is ErrSnapshotVersion or tells the damage; a machine that is returned passes Check.
func Restore(src []byte) (*Machine, error) { return restore(src, standardBounds) }

func restore(src []byte, b bounds) (*Machine, error) {
	m := newMachine(Config{}, b)
	r := restorer{m: m, Reader: codec.NewReader(src)}
	if r.version = r.Uint8(); r.Err() == nil && (r.version < 1 || r.version > snapshotVersion) {
		return nil, ErrSnapshotVersion
	}
	r.head()
	r.ready()
	r.returning()
	r.delayed()
	r.outbox()
	r.dropped()
	r.deadBoots()
	n := r.Count(1)
	for i := 0; i < n && r.Err() == nil; i++ {
		r.pipeline()
	}
	r.openTxs()
	r.waiting()
	r.stagedIDs()
	r.ids()
	r.need(r.Len() == 0, "trailing bytes")
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("queue: restore: %w", err)
	}
	return m, nil
}

// numberMax bounds the numbers that only ever rise, so that none of them overflows.
const numberMax = 1 << 62

// restorer reads a snapshot into m. It holds what the machine takes for granted against the input, so that a damaged snapshot is an error and never a machine that breaks later.
type restorer struct {
	codec.Reader
	m       *Machine
	version uint8
	waits   seqSet // messages that are staged, which hold no id yet
	places  seqSet // those that are no seqs
}

// need notes a damage unless ok.
func (r *restorer) need(ok bool, what string) {
	if !ok && r.Err() == nil {
		r.Fail(fmt.Errorf("%w: %s", errSnapshot, what))
	}
}

func (r *restorer) head() {
	m := r.m
	readConfig(&r.Reader, &m.cfg)
	m.seenMillis = int64(r.Uint64())
	m.nextSeq = Seq(r.Uvarint())
	m.seals = r.Uvarint()
	m.sealed = r.Bool()
	m.hadConsumer = r.Bool()
	m.unusedDue = r.Bool()
	m.lastUse = m.seenMillis
	values := m.totals.values()
	known := values[:]
	if r.version < 3 {
		known = known[:totalsBefore3]
	} else {
		m.lastUse = int64(r.Uvarint())
		m.succession.joined, m.succession.epoch = r.Uvarint(), r.Uvarint()
		r.need(m.succession.joined <= numberMax && m.succession.epoch <= numberMax, "numbers of consumers")
		m.activate()
	}
	for _, v := range known {
		*v = r.Uvarint()
	}
	r.need(m.nextSeq > 0 && m.nextSeq <= numberMax, "next seq")
	r.need((!m.sealed || m.seals > 0) && (!m.cfg.Draining || m.sealed), "seal")
	r.need(m.seenMillis >= 0 && m.lastUse >= 0 && m.lastUse <= m.seenMillis, "time")
}

// totalsBefore3 is how many totals there were before version 3.
const totalsBefore3 = 9

// record reads all of a record but its place, which the caller makes of the returned distance and puts it there. born is what the record's time of birth is told from.
func (r *restorer) record(priority uint8, born int64) (distance uint64, x record) {
	distance = r.Uvarint()
	x.priority = priority
	x.bytes = readUint32(&r.Reader)
	flags := r.Uint8()
	if flags&recordHasPlace != 0 {
		x.seq = Seq(r.Uvarint())
		r.need(x.seq > 0, "place of a record")
	}
	if r.version < 3 {
		r.need(flags&(recordHasDue|recordHasPlace) == 0, "flags of a record")
		x.born = r.m.seenMillis
	} else {
		x.born = born + unzigzag(r.Uvarint())
	}
	x.flags = Flags(flags &^ (recordHasCounts | recordHasDue | recordHasPlace | recordIsLater))
	if flags&recordIsLater != 0 {
		x.flags |= FlagDelay
	}
	if flags&recordHasCounts != 0 {
		x.acquired = readUint32(&r.Reader)
		x.failures = readUint32(&r.Reader)
		r.need(x.acquired|x.failures != 0, "counts of a record")
	}
	if flags&recordHasDue != 0 {
		x.due = int64(r.Uvarint())
		r.need(x.due > 0, "expiration of a record")
	}
	r.need(x.flags&^(recordFlags|FlagDelay) == 0 && (x.flags&FlagDelay == 0 || x.acquired|x.failures == 0 && r.version >= 3), "flags of a record")
	r.need(x.born >= 0 && (x.born <= r.m.seenMillis || x.flags&FlagDelay != 0 && x.born <= r.m.seenMillis+timeMax), "birth of a record")
	return distance, x
}

// put gives a record that was read its place.
func (x *record) put(place Seq) { x.place, x.seq = place, place-x.seq }

// admit checks that a message may exist and is in no other place.
func (r *restorer) admit(x *record) bool {
	m := r.m
	r.need(x.seq > 0 && x.seq <= x.place && x.place < m.nextSeq && !m.Has(x.seq) && !m.dropped.has(x.seq) && !r.places.has(x.seq), "seq of a message")
	if x.place != x.seq && r.Err() == nil {
		r.need(!m.Has(x.place) && !m.dropped.has(x.place) && !r.places.has(x.place), "place of a message")
		r.places.add(x.place)
	}
	return r.Err() == nil
}

func (r *restorer) ready() {
	levels := r.Count(1)
	last := -1
	for i := 0; i < levels && r.Err() == nil; i++ {
		priority := int(r.Uint8())
		r.need(priority > last, "levels")
		last = priority
		if r.version >= 4 {
			r.windows(uint8(priority))
		}
		r.level(uint8(priority))
		r.need(r.m.ready.at(uint8(priority)).size() > 0, "an empty level")
	}
}

// level reads the messages of a level that are told one by one: from version 4 on those that are not plain, in version 4 those that expire, too.
func (r *restorer) level(priority uint8) {
	seq, born := Seq(0), int64(0)
	for range r.Count(3) {
		distance, x := r.record(priority, born)
		r.need(x.born >= born, "order of births")
		born = x.born
		r.need(distance > 0 && x.flags&(FlagNoAck|flagFailed|FlagDelay) == 0, "ready message")
		seq += Seq(distance)
		x.put(seq)
		if !r.admit(&x) {
			return
		}
		r.need(x.due == 0 || x.due >= x.born || !x.isPlain(), "expiration of a plain message")
		switch {
		case !x.isPlain() || r.version == 4 && x.due != 0: // others of its window may be there
			r.m.ready.putBack(&x)
		case r.version < 4:
			r.m.ready.push(&x)
		default:
			r.need(false, "a plain message by itself")
		}
	}
}

func (r *restorer) returning() {
	n := r.Count(4)
	var last record
	if r.version >= 3 {
		gathering := r.Uvarint()
		r.need(gathering <= uint64(n), "messages to be gathered")
		r.m.returning.gathering = int(min(gathering, uint64(n)))
	}
	for i := 0; i < n; i++ {
		priority := r.Uint8()
		distance, x := r.record(priority, 0)
		x.put(Seq(distance))
		r.need(x.flags&FlagNoAck == 0 && x.acquired > 0, "returning message")
		if !r.admit(&x) {
			return
		}
		r.need(i == 0 || last.before(&x), "order of returning messages")
		last = x
		r.m.returning.heap.push(x)
		r.m.away.add(x.seq)
		r.m.unacked.add(&x)
	}
}

func (r *restorer) delayed() {
	if r.version < 3 {
		return
	}
	last := asleep{}
	n := r.Count(6)
	for i := 0; i < n && r.Err() == nil; i++ {
		x := asleep{until: last.until + int64(r.Uvarint())}
		priority := r.Uint8()
		distance, rec := r.record(priority, last.record.born)
		rec.put(last.record.place + Seq(unzigzag(distance)))
		x.record = rec
		r.need(rec.flags&FlagDelay == 0 && rec.acquired > 0 || rec.flags&FlagDelay != 0 && rec.place == rec.seq && rec.born == x.until, "time of a delayed message")
		r.need(x.until > 0 && (i == 0 || byUntil(last, x)) && rec.flags&(FlagNoAck|flagFailed) == 0, "delayed message")
		if !r.admit(&rec) {
			return
		}
		r.m.delayed.add(x.until, &x.record)
		last = x
	}
}

func (r *restorer) outbox() {
	if r.version < 3 {
		return
	}
	o := &r.m.outbox
	o.last = r.Uvarint()
	r.need(o.last <= numberMax, "last of the outbox")
	n := r.Count(6)
	last := parcel{}
	for i := 0; i < n && r.Err() == nil; i++ {
		step := r.Uvarint()
		p := parcel{n: last.n + step, reason: Reason(r.Uint8())}
		priority := r.Uint8()
		p.left = readUint32(&r.Reader)
		p.died = last.died + unzigzag(r.Uvarint())
		distance, x := r.record(priority, last.record.born)
		x.put(last.record.place + Seq(unzigzag(distance)))
		p.record = x
		r.need(x.flags&FlagDelay == 0, "delayed entry")
		r.need(step > 0 && p.n > last.n && p.n <= o.last && (p.reason == ReasonRelayed || p.reason.IsDeath() || p.reason.isMove()) && x.flags&(FlagNoAck|flagFailed) == 0, "entry of the outbox")
		r.need(uint64(p.left) <= uint64(r.m.bounds.lanes) && (p.left == 1 || !p.reason.isMove()), "targets of an entry")
		r.need(p.died >= 0 && p.died <= r.m.seenMillis, "time of a death")
		if !r.admit(&x) {
			return
		}
		o.put(p)
		last = p
	}
	r.lanes()
	marks := r.Count(3)
	r.need(marks <= r.m.bounds.marks, "number of marks")
	for i := 0; i < marks && r.Err() == nil; i++ {
		k := mark{source: QueueID(r.Uvarint()), epoch: r.Uvarint(), last: r.Uvarint()}
		if i > 0 {
			before := r.m.marks[i-1]
			r.need(before.source < k.source || before.source == k.source && before.epoch < k.epoch, "order of marks")
		}
		r.need(k.last <= numberMax, "mark")
		r.m.marks = append(r.m.marks, k)
	}
}

// lanes reads the lanes of the outbox. Every parcel stands in as many as it has targets left.
func (r *restorer) lanes() {
	o := &r.m.outbox
	lanes := r.Count(3)
	r.need(lanes <= r.m.bounds.lanes, "number of lanes")
	wanted, left := uint64(0), make(map[uint64]uint32)
	o.each(func(p *parcel) {
		wanted += uint64(p.left)
		left[p.n] = p.left
	})
	for i := 0; i < lanes && r.Err() == nil; i++ {
		l := &lane{target: QueueID(r.Uvarint()), done: r.Uvarint()}
		r.need((i == 0 || o.lanes[i-1].target < l.target) && l.done <= numberMax, "lane")
		o.lanes = append(o.lanes, l)
		n := uint64(0)
		for range r.Count(1) {
			n += uint64(unzigzag(r.Uvarint()))
			r.need(left[n] > 0, "entry of a lane")
			if r.Err() != nil {
				return
			}
			left[n]--
			wanted--
			l.parcels = append(l.parcels, n)
		}
	}
	r.need(wanted == 0, "targets of the outbox")
}

func (r *restorer) dropped() {
	s := &r.m.dropped
	n := r.Count(1 + 8*setWords)
	for i := 0; i < n && r.Err() == nil; i++ {
		p := setPage{no: r.Uvarint()}
		for w := range p.bits {
			p.bits[w] = r.Uint64()
		}
		r.need(i == 0 || p.no > s.pages[i-1].no, "order of dropped messages")
		r.need(!p.isEmpty() && p.no <= uint64(r.m.nextSeq)>>setPageShift, "dropped messages")
		if r.Err() != nil {
			return
		}
		s.pages = append(s.pages, p)
		s.n += p.count()
	}
	for q, ok := s.next(0); ok && r.Err() == nil; q, ok = s.next(q + 1) {
		r.need(q > 0 && q < r.m.nextSeq && !r.m.Has(q), "dropped message")
	}
}

func (r *restorer) deadBoots() {
	n := r.Count(2)
	for i := 0; i < n && r.Err() == nil; i++ {
		b := deadBoot{node: NodeID(r.Uvarint()), counter: r.Uvarint()}
		r.need(i == 0 || r.m.deadBoots[i-1].node < b.node, "order of dead boots")
		r.m.deadBoots = append(r.m.deadBoots, b)
	}
}

func (r *restorer) pipeline() {
	p := &pipeline{}
	p.id.Node = NodeID(r.Uvarint())
	p.id.Boot.Counter = r.Uvarint()
	p.id.Boot.Nonce = r.Uint64()
	p.id.Gen = r.Uvarint()
	p.evicted = r.version > 1 && r.Bool()
	p.lastK = r.Uvarint()
	n := len(r.m.pipelines)
	r.need(n == 0 || r.m.pipelines[n-1].id.less(p.id), "order of pipelines")
	r.need(n < r.m.bounds.pipelines && p.lastK > 0 && p.lastK <= numberMax, "pipeline")
	counter, dead := r.m.dead(p.id.Node)
	r.need(!dead || p.id.Boot.Counter > counter, "pipeline of a dead boot")
	r.need(n == 0 || r.m.pipelines[n-1].id.Node != p.id.Node, "two pipelines of a node")
	if r.Err() != nil {
		return
	}
	for i, k := 0, p.oldestK(); i < pipelineWindow && k <= p.lastK; i, k = i+1, k+1 {
		p.outcomes[k%pipelineWindow] = r.outcome()
	}
	r.m.pipelines = append(r.m.pipelines, p)
	sessions := r.Count(1)
	r.need(sessions == 0 || !p.evicted, "session of an evicted pipeline")
	for i := 0; i < sessions && r.Err() == nil; i++ {
		r.session(p)
	}
}

// outcome reads the exceptions of a batch and encodes them anew.
func (r *restorer) outcome() []byte {
	var dst []byte
	o := codec.NewReader(r.Bytes())
	for last := int64(-1); o.Len() > 0; {
		x := readException(&o)
		r.need(o.Err() == nil && int64(x.Index) > last && x.Index < limits.BatchCommandsMax && !x.Reply.IsPlain() && x.Reply.Code <= CodeNotOutstanding, "outcome of a batch")
		last = int64(x.Index)
		dst = appendException(dst, x.Index, &x.Reply)
	}
	return dst
}

func (r *restorer) session(p *pipeline) {
	s := &session{pipeline: p, id: SessionID(r.Uvarint()), lastD: r.Uvarint(), drained: r.Uvarint(), lastConsumer: readConsumer(&r.Reader), limit: NoLimit}
	if r.version > 2 {
		s.limit = readUint32(&r.Reader) - 1
		s.wants = r.Bool()
		check := int64(r.Uvarint())
		s.lostSome = r.Bool()
		r.need(check >= 0 && r.Err() == nil, "check of a session")
		r.m.checks.set(s, max(check, 0))
	}
	n := len(p.sessions)
	r.need(s.id > 0 && (n == 0 || p.sessions[n-1].id < s.id), "order of sessions")
	r.need(r.m.sessions < r.m.bounds.sessions && s.drained <= s.lastD && s.lastD <= numberMax, "session")
	p.sessions = append(p.sessions, s)
	r.m.sessions++
	consumers := r.Count(1)
	for i := 0; i < consumers && r.Err() == nil; i++ {
		r.consumer(s)
	}
	if r.version > 2 {
		r.tx(s)
		r.need(s.tx != nil || s.lastConsumer > 0 || s.lastD > 0, "unused session")
	}
	deliveries := r.Count(6)
	d, seq, born := uint64(0), Seq(0), int64(0)
	for i := 0; i < deliveries && r.Err() == nil; i++ {
		d, seq, born = r.delivery(s, d, seq, born)
	}
}

func (r *restorer) consumer(s *session) {
	c := &consumer{
		session: s, id: readConsumer(&r.Reader), priority: int32(r.Uint32()), prefetch: readUint32(&r.Reader),
		windowBytes: readUint32(&r.Reader), windowCount: readUint32(&r.Reader), noAck: r.Bool(), exclusive: r.Bool(),
	}
	n := len(s.consumers)
	r.need(c.id > 0 && c.id <= s.lastConsumer && (n == 0 || s.consumers[n-1].id < c.id), "order of consumers")
	r.need(r.m.hadConsumer && c.windowBytes > 0 && c.windowCount > 0 && c.windowCount <= WindowCountMax, "consumer")
	r.need(r.m.roster.size < r.m.bounds.consumers && !r.m.roster.exclusive && !(c.exclusive && r.m.roster.size > 0), "exclusive consumer")
	r.succeed(c)
	s.consumers = append(s.consumers, c)
	r.m.roster.join(c)
}

// succeed reads a consumer's place in the succession. The active one is that of the last take-over.
func (r *restorer) succeed(c *consumer) {
	n := &r.m.succession
	if r.version < 3 {
		n.joined++
		c.joined = n.joined
		return
	}
	c.joined, c.epoch, c.passive = r.Uvarint(), r.Uvarint(), r.Bool()
	c.timeout = readLimit(&r.Reader)
	r.need(c.joined > 0 && c.joined <= n.joined && c.epoch <= n.epoch, "number of a consumer")
	if n.order == nil {
		r.need(c.epoch == 0 && !c.passive, "epoch of a consumer")
		return
	}
	_, twice := n.order.ReplaceOrInsert(c)
	r.need(!twice, "number of a consumer")
	if c.epoch == n.epoch && n.epoch > 0 {
		r.need(n.active == nil, "two active consumers")
		n.active = c
	} else {
		r.need(c.passive, "two active consumers")
	}
}

func (r *restorer) tx(s *session) {
	t := &tx{n: TxNumber(r.Uvarint())}
	if t.n == 0 || r.Err() != nil {
		return
	}
	t.messages = r.staged()
	settlements := r.Count(4)
	for i := 0; i < settlements && r.Err() == nil; i++ {
		var c Command
		c.Outcome, c.Consumer = Outcome(r.Uint8()), readConsumer(&r.Reader)
		readRange(&r.Reader, &c)
		t.settlements = append(t.settlements, settlement{outcome: c.Outcome, consumer: c.Consumer, from: c.From, to: c.To})
	}
	r.need(t.size() > 0 && t.size() <= r.m.bounds.txCommands, "transaction")
	s.tx = t
}

func (r *restorer) delivery(s *session, lastD uint64, lastPlace Seq, born int64) (uint64, Seq, int64) {
	step := r.Uvarint()
	d := lastD + step
	id := readConsumer(&r.Reader)
	deadline := int64(0)
	if r.version > 2 {
		deadline = int64(r.Uvarint())
	}
	priority := r.Uint8()
	distance, x := r.record(priority, born)
	x.put(lastPlace + Seq(unzigzag(distance)))
	r.need(step > 0 && d > lastD && d <= s.lastD && id <= s.lastConsumer && x.acquired > 0 && x.flags&flagFailed == 0, "delivery")
	r.need(!x.isNoAck() || d > s.drained, "drained delivery without acknowledgement")
	r.need(deadline == 0 || deadline > 0 && !x.isNoAck() && s.check > 0 && s.check <= max(deadline, r.m.seenMillis+checkGapMillis), "deadline of a delivery")
	c := s.consumer(id)
	r.need(c == nil || c.noAck == x.isNoAck(), "delivery of the other kind")
	if !r.admit(&x) {
		return d, x.place, x.born
	}
	s.out.add(d, delivery{record: x, deadline: deadline, consumer: id}, &r.m.pool)
	r.m.away.add(x.seq)
	if !x.isNoAck() {
		r.m.unacked.add(&x)
		if id != 0 {
			s.unsettled++
		}
	}
	if c == nil {
		return d, x.place, x.born
	}
	if !x.isNoAck() {
		c.unsettled++
	}
	if d > s.drained {
		c.undrained++
		c.undrainedBytes += uint64(x.bytes)
	}
	return d, x.place, x.born
}

// waiting links the consumers that have credit in the order of the snapshot.
func (r *restorer) waiting() {
	m := r.m
	n := r.Count(1)
	consumers := make([]*consumer, 0, m.roster.size)
	credited := 0
	for _, p := range m.pipelines {
		for _, s := range p.sessions {
			for _, c := range s.consumers {
				consumers = append(consumers, c)
				r.need(c.keepsLimits(), "limits of a consumer")
				if c.hasCredit() {
					credited++
				} else {
					m.roster.bar(c, c.hasOwnCredit())
				}
			}
		}
	}
	r.need(n == credited, "number of waiting consumers")
	r.need(m.succession.isStable(), "active consumer")
	last := -1
	for i := 0; i < n && r.Err() == nil; i++ {
		place := r.Uvarint()
		if place >= uint64(len(consumers)) {
			r.need(false, "waiting consumer")
			return
		}
		c := consumers[place]
		at, _ := m.roster.line(c.priority)
		r.need(c.hasCredit() && !c.waiting && at >= last, "order of waiting consumers")
		if r.Err() != nil {
			return
		}
		m.roster.lines[at].push(c)
		m.roster.waiting++
		last = at
	}
	r.need(m.roster.hungry == 0 || m.ready.sums.n == 0 || m.sealed, "session that wants more")
	r.need(!m.unusedDue || m.cfg.AutoDelete && m.hadConsumer && m.roster.size == 0 && !m.returning.isEmpty(), "unused queue")
}

// stagedIDs reads the ids of staged messages.
func (r *restorer) stagedIDs() {
	if r.version < 3 {
		return
	}
	last := uint64(0)
	for range r.Count(17) {
		id, holder := readID(&r.Reader), r.Uvarint()
		r.need(holder > last && r.waits.has(Seq(holder)), "id of a staged message")
		if r.Err() != nil {
			return
		}
		r.m.stageID(id, Seq(holder))
		last = holder
	}
}

// ids reads the ids that count.
func (r *restorer) ids() {
	m := r.m
	if r.version < 3 || !m.cfg.Deduplicate {
		return
	}
	d, n := &m.dedup, r.Count(17)
	r.need(!m.cfg.isWindow() || uint64(n) <= m.dedupSize(), "number of ids")
	if n == 0 || r.Err() != nil {
		return
	}
	d.ids = newTree(byID)
	if m.cfg.isWindow() {
		d.order, d.last = newTree(byHolder), uint64(n)
	}
	last, holders := known{}, seqSet{}
	for i := 0; i < n && r.Err() == nil; i++ {
		k := known{id: readID(&r.Reader)}
		if d.order == nil {
			k.holder = r.Uvarint()
			seq := Seq(k.holder)
			r.need((i == 0 || byID(last, k)) && !holders.has(seq) && !r.waits.has(seq) && m.Has(seq), "holder of an id")
			holders.add(seq)
		} else {
			k.holder, k.since = uint64(i+1), last.since+int64(r.Uvarint())
			r.need(k.since >= last.since && k.since <= m.seenMillis, "time of an id")
			d.order.ReplaceOrInsert(k)
		}
		_, twice := d.ids.ReplaceOrInsert(k)
		r.need(!twice && m.stands(&k), "id")
		last = k
	}
}

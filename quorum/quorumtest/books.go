package quorumtest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sort"
	"sync"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// Books know of every message what was said about it: published, answered, delivered, settled. They are safe for concurrent use.
type Books struct {
	mu         sync.Mutex
	messages   map[messageID]*entry
	owners     map[*process][]owner
	publishers uint32
	published  int
	answered   int
	confirmed  int
	lastSeq    map[publisherID]seqMark
	violations []string
	hidden     int
}

// owner is what lives in a process: it is told when the process is gone for the outside, or declared dead.
type owner interface {
	gone()
	fenced()
}

// publisherID names a publisher, messageID one of its messages.
type publisherID struct {
	queue meta.QueueID
	no    uint32
}

type messageID struct {
	publisher publisherID
	no        uint32
}

func (id messageID) String() string {
	return fmt.Sprintf("message %d of publisher %d in queue %d", id.no, id.publisher.no, id.publisher.queue)
}

// entry is one message.
type entry struct {
	id        messageID
	tx        *transaction // that it is part of, nil if of none
	answered  bool
	confirmed bool
	seq       queue.Seq
	seen      []sighting
	settling  bool // a settle of it was submitted: it may be gone without another word
	settled   bool
	settledAt uint32 // the acquired count of the delivery that was settled
}

// sighting is one delivery.
type sighting struct {
	acquired    uint32
	redelivered bool
	to          string
}

type seqMark struct {
	no  uint32
	seq queue.Seq
}

func newBooks() *Books {
	return &Books{messages: make(map[messageID]*entry), owners: make(map[*process][]owner), lastSeq: make(map[publisherID]seqMark)}
}

// violationsMax bounds the violations that are kept.
const violationsMax = 20

func (b *Books) violate(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.violateLocked(format, args...)
}

func (b *Books) violateLocked(format string, args ...any) {
	if len(b.violations) >= violationsMax {
		b.hidden++
		return
	}
	b.violations = append(b.violations, fmt.Sprintf(format, args...))
}

// Violations returns what was seen that must never be seen.
func (b *Books) Violations() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := append([]string(nil), b.violations...)
	if b.hidden > 0 {
		list = append(list, fmt.Sprintf("and %d more", b.hidden))
	}
	return list
}

// own notes who lives in a process.
func (b *Books) own(p *process, o owner) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owners[p] = append(b.owners[p], o)
}

// gone tells those who live in a process that it is gone.
func (b *Books) gone(p *process) {
	b.mu.Lock()
	owners := b.owners[p]
	delete(b.owners, p)
	b.mu.Unlock()
	for _, o := range owners {
		o.gone()
	}
}

// fenced tells those who live in a process that the cluster declared it dead.
func (b *Books) fenced(p *process) {
	b.mu.Lock()
	owners := b.owners[p]
	b.mu.Unlock()
	for _, o := range owners {
		o.fenced()
	}
}

// envelopeBytesMin is the length of an envelope without its padding: queue, publisher, number, checksum.
const envelopeBytesMin = 8 + 4 + 4 + 4

// envelope is a message as it travels, at least size bytes long.
func (id messageID) envelope(size int) []byte {
	env := make([]byte, max(size, envelopeBytesMin))
	binary.BigEndian.PutUint64(env, uint64(id.publisher.queue))
	binary.BigEndian.PutUint32(env[8:], id.publisher.no)
	binary.BigEndian.PutUint32(env[12:], id.no)
	for i := envelopeBytesMin; i < len(env); i++ {
		env[i] = byte(int(id.no) + i)
	}
	binary.BigEndian.PutUint32(env[16:], checksum(env))
	return env
}

func checksum(env []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(env[:16]), crc32.IEEETable, env[envelopeBytesMin:])
}

func parseEnvelope(env []byte) (messageID, bool) {
	if len(env) < envelopeBytesMin || binary.BigEndian.Uint32(env[16:]) != checksum(env) {
		return messageID{}, false
	}
	return messageID{publisherID{meta.QueueID(binary.BigEndian.Uint64(env)), binary.BigEndian.Uint32(env[8:])}, binary.BigEndian.Uint32(env[12:])}, true
}

// publisher gives a new publisher its name.
func (b *Books) publisher(q meta.QueueID) publisherID {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.publishers++
	return publisherID{q, b.publishers}
}

// publishes notes a message before it is submitted.
func (b *Books) publishes(id messageID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages[id] = &entry{id: id}
	b.published++
}

// answers notes the answer to a publish.
func (b *Books) answers(id messageID, code queue.Code) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.messages[id]
	if e == nil || e.answered {
		b.violateLocked("an answer (%d) to what was not asked, or was answered: %v", code, id)
		return
	}
	e.answered = true
	b.answered++
	switch code {
	case queue.CodeOK:
		e.confirmed = true
		b.confirmed++
	case queue.CodeUnavailable, queue.CodeGone, queue.CodeRejected:
	default:
		b.violateLocked("%v was answered with code %d", id, code)
	}
}

// delivered notes a delivery to a consumer.
func (b *Books) delivered(q meta.QueueID, d *quorum.Delivery, to string) (*entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, ok := parseEnvelope(d.Envelope)
	if !ok {
		b.violateLocked("%s got a damaged message, seq %d of queue %d: % x", to, d.Seq, q, d.Envelope[:min(len(d.Envelope), 40)])
		return nil, false
	}
	e := b.messages[id]
	switch {
	case e == nil || id.publisher.queue != q:
		b.violateLocked("%s got from queue %d what nobody published there: %v", to, q, id)
		return nil, false
	case e.tx != nil && !e.tx.committing:
		b.violateLocked("%v comes to %s before its commit", id, to)
	case e.seq != 0 && e.seq != d.Seq:
		b.violateLocked("%v stands in the queue twice: as %d and as %d", id, e.seq, d.Seq)
	}
	e.seq = d.Seq
	if e.settled && d.AcquiredCount > e.settledAt {
		b.violateLocked("%v (seq %d) was settled at its acquisition %d and comes again to %s as acquisition %d", id, d.Seq, e.settledAt, to, d.AcquiredCount)
	}
	for _, s := range e.seen {
		if s.acquired == d.AcquiredCount {
			b.violateLocked("%v (seq %d), acquisition %d, was delivered twice: to %s and to %s as d %d", id, d.Seq, s.acquired, s.to, to, d.D)
		}
		if s.acquired > d.AcquiredCount {
			b.violateLocked("%v (seq %d), acquisition %d, comes to %s after %s had it as acquisition %d", id, d.Seq, d.AcquiredCount, to, s.to, s.acquired)
		}
		if s.acquired < d.AcquiredCount && !d.Redelivered {
			b.violateLocked("%v (seq %d) comes to %s without the flag, though %s had it before", id, d.Seq, to, s.to)
		}
	}
	if d.Redelivered != (d.AcquiredCount > 0) {
		b.violateLocked("%v (seq %d) comes to %s with the flag %t after %d acquisitions", id, d.Seq, to, d.Redelivered, d.AcquiredCount)
	}
	e.seen = append(e.seen, sighting{d.AcquiredCount, d.Redelivered, to})
	return e, true
}

// settles notes that a settle of deliveries is submitted.
func (b *Books) settles(list []held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range list {
		h.entry.settling = true
	}
}

// settled notes that a settle of deliveries was answered.
func (b *Books) settled(list []held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range list {
		h.entry.settled, h.entry.settledAt = true, max(h.entry.settledAt, h.acquired)
	}
}

// Totals are how many messages were published, answered and confirmed.
func (b *Books) Totals() (published, answered, confirmed int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.published, b.answered, b.confirmed
}

// Describe tells the totals.
func (b *Books) Describe() string {
	p, a, c := b.Totals()
	return fmt.Sprintf("%d published, %d answered, %d confirmed", p, a, c)
}

// CheckDrained holds the books against queues that are empty now: every confirmed message was delivered and settled, and messages of a publisher stand in the order in which it sent them.
func (b *Books) CheckDrained(queues ...meta.QueueID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.sorted()
	lost := 0
	var first messageID
	for _, e := range all {
		if !slices.Contains(queues, e.id.publisher.queue) {
			continue
		}
		if e.confirmed && !e.settling {
			if lost == 0 {
				first = e.id
			}
			lost++
		}
		if e.tx != nil && e == e.tx.entries[0] {
			b.checkWhole(e.tx)
		}
		if e.seq == 0 {
			continue
		}
		mark := b.lastSeq[e.id.publisher]
		if e.seq <= mark.seq {
			b.violateLocked("%v stands at %d, its message %d before it at %d", e.id, e.seq, mark.no, mark.seq)
		}
		b.lastSeq[e.id.publisher] = seqMark{e.id.no, e.seq}
	}
	if lost > 0 {
		b.violateLocked("%d confirmed messages are lost, the first is %v", lost, first)
	}
	clear(b.lastSeq)
}

// sorted returns all entries by publisher and number.
func (b *Books) sorted() []*entry {
	all := make([]*entry, 0, len(b.messages))
	for _, e := range b.messages {
		all = append(all, e)
	}
	sort.Slice(all, func(i, j int) bool {
		x, y := all[i].id, all[j].id
		if x.publisher != y.publisher {
			if x.publisher.queue != y.publisher.queue {
				return x.publisher.queue < y.publisher.queue
			}
			return x.publisher.no < y.publisher.no
		}
		return x.no < y.no
	})
	return all
}

package totalqueue

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// answer is what the broker said about a publish. The values are not persisted.
type answer uint8

const (
	unanswered answer = iota
	confirmed
	nacked
	returned
)

// Ledger holds the history of one test. Its methods and those of its publishers and consumers may be called from many goroutines.
type Ledger struct {
	mu         sync.Mutex
	tick       uint64 // rises with every attempt and every confirm: the order in which the test saw them
	publishers map[string]*Publisher
	queues     map[string]*queueLog
	wrong      Verdict // what was found while the test ran
}

// queueLog is what came out of one queue.
type queueLog struct {
	streams map[string]*stream // by publisher
}

// stream is the messages of one publisher in one queue; index seq-1.
type stream struct {
	sights []sight
}

// sight is what consumers saw of one message in one queue.
type sight struct {
	times uint32
	acked bool
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{publishers: map[string]*Publisher{}, queues: map[string]*queueLog{}}
}

// attempt is one published message.
type attempt struct {
	attemptedAt uint64
	confirmedAt uint64 // 0 without a confirm
	answer      answer
}

// Publisher is one source of messages whose order must be kept. Its methods may be called from several goroutines, but the order that is
// checked is that of the calls of Next.
type Publisher struct {
	ledger   *Ledger
	name     string
	queues   []string
	attempts []attempt // index seq-1
}

// Publisher registers a source. Every one of its messages must arrive in each of the queues.
func (l *Ledger) Publisher(name string, queues ...string) *Publisher {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.Contains(name, ":") || l.publishers[name] != nil || len(queues) == 0 {
		panic(fmt.Sprintf("totalqueue: publisher %q needs a new name without a colon and at least one queue", name))
	}
	p := &Publisher{ledger: l, name: name, queues: slices.Clone(queues)}
	l.publishers[name] = p
	for _, q := range queues {
		l.queue(q).streams[name] = &stream{}
	}
	return p
}

// queue returns the log of a queue. The caller holds the lock.
func (l *Ledger) queue(name string) *queueLog {
	q := l.queues[name]
	if q == nil {
		q = &queueLog{streams: map[string]*stream{}}
		l.queues[name] = q
	}
	return q
}

// Next makes the publisher's next message, with a body of sizeBytes or the few that its value needs. From now on the message counts as attempted.
func (p *Publisher) Next(sizeBytes int) (ID, []byte) {
	p.ledger.mu.Lock()
	p.ledger.tick++
	p.attempts = append(p.attempts, attempt{attemptedAt: p.ledger.tick})
	id := ID{Publisher: p.name, Seq: uint64(len(p.attempts))}
	p.ledger.mu.Unlock()
	return id, encode(id, sizeBytes)
}

// Name is the publisher's name.
func (p *Publisher) Name() string { return p.name }

// Confirmed notes the broker's promise to keep a message.
func (p *Publisher) Confirmed(seq uint64) { p.answered(seq, confirmed) }

// Nacked notes that the broker does not promise anything: the message may be there or not.
func (p *Publisher) Nacked(seq uint64) { p.answered(seq, nacked) }

// Returned notes that the broker found no queue for a mandatory message: it must not be in any.
func (p *Publisher) Returned(seq uint64) { p.answered(seq, returned) }

func (p *Publisher) answered(seq uint64, a answer) {
	l := p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq == 0 || seq > uint64(len(p.attempts)) {
		l.wrong.Invented.add("an answer for message %s:%d, which was never published", p.name, seq)
		return
	}
	at := &p.attempts[seq-1]
	if at.answer == returned && a == confirmed {
		return // a returned message is confirmed as well
	}
	if at.answer != unanswered {
		l.wrong.Invented.add("a second answer for message %s:%d", p.name, seq)
		return
	}
	at.answer = a
	if a == confirmed {
		l.tick++
		at.confirmedAt = l.tick
	}
}

// Unanswered returns how many of the publisher's messages the broker has neither confirmed nor nacked.
func (p *Publisher) Unanswered() int {
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	n := 0
	for _, at := range p.attempts {
		if at.answer == unanswered {
			n++
		}
	}
	return n
}

// ConfirmedCount returns how many of the publisher's messages the broker confirmed.
func (p *Publisher) ConfirmedCount() int {
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	n := 0
	for _, at := range p.attempts {
		if at.answer == confirmed {
			n++
		}
	}
	return n
}

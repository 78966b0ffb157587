package harness

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Pairing is workers that take a message from each of two queues and in one transaction acknowledge both and publish their pair to two other queues, while brokers die and come back. At rest each message
// is in its queue, or in one pair, which is in both of the others.
type Pairing struct {
	many    int
	workers sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc

	mu        sync.Mutex
	committed map[string]bool // pairs whose commit was answered
}

// The queues: messages of left and right are acknowledged in pairs, which go to both of the others.
const (
	pairLeft, pairRight = "tx-left", "tx-right"
	pairOne, pairOther  = "tx-one", "tx-other"
)

// pairWorkers is how many there are; pairRest is how long a pairing may take to come to rest after the last fault.
const (
	pairWorkers = 4
	pairRest    = time.Minute
)

// StartPairing declares the queues, puts so many messages into each of the two, and starts the workers. url names a broker that may be alive each time it is asked.
func StartPairing(t testing.TB, b *Broker, url func() string, many int) *Pairing {
	t.Helper()
	p := &Pairing{many: many, committed: make(map[string]bool)}
	ch := b.Channel(t)
	for _, q := range []string{pairLeft, pairRight, pairOne, pairOther} {
		Declare(t, ch, q, Quorum)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{pairLeft, pairRight} {
		bodies := make([][]byte, many)
		for i := range bodies {
			bodies[i] = fmt.Appendf(nil, "%s%d", q[3:4], i)
		}
		PublishConfirmed(t, ch, "", q, bodies...)
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	t.Cleanup(func() {
		p.stop()
		p.workers.Wait()
	})
	for range pairWorkers {
		p.workers.Go(func() {
			for p.ctx.Err() == nil {
				if conn, err := Dial(url()); err == nil {
					p.work(conn)
					_ = conn.Close()
				}
				time.Sleep(reconnectPause)
			}
		})
	}
	return p
}

// Committed is how many commits were answered so far.
func (p *Pairing) Committed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.committed)
}

// AwaitProgress waits until some more commits are answered, or all are.
func (p *Pairing) AwaitProgress(t testing.TB, more int) {
	t.Helper()
	want := min(p.Committed()+more, p.many*9/10)
	Eventually(t, pairRest, func() error {
		if n := p.Committed(); n < want {
			return fmt.Errorf("%d transactions are committed, want %d", n, want)
		}
		return nil
	})
}

// work does transactions until something fails or there is nothing left.
func (p *Pairing) work(conn *amqp.Connection) {
	ch, err := conn.Channel()
	if err != nil || ch.Tx() != nil {
		return
	}
	for p.ctx.Err() == nil {
		pair := ""
		for _, q := range []string{pairLeft, pairRight} {
			d, ok, err := ch.Get(q, false)
			if err != nil || !ok || ch.Ack(d.DeliveryTag, false) != nil {
				return
			}
			pair += "+" + string(d.Body)
		}
		for _, q := range []string{pairOne, pairOther} {
			if ch.PublishWithContext(p.ctx, "", q, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(pair)}) != nil {
				return
			}
		}
		if ch.TxCommit() != nil {
			return
		}
		p.mu.Lock()
		p.committed[pair] = true
		p.mu.Unlock()
	}
}

// Finish stops the workers, waits until all is at rest, empties the queues and holds what is there against what must be. It returns how many transactions were carried out.
func (p *Pairing) Finish(t testing.TB, b *Broker) int {
	t.Helper()
	p.stop()
	p.workers.Wait()
	Eventually(t, pairRest, func() error {
		var n [4]int
		for i, q := range []string{pairLeft, pairRight, pairOne, pairOther} {
			var err error
			if n[i], err = b.TryCount(q); err != nil {
				return err
			}
		}
		if n[0] != n[1] || n[2] != n[3] || n[0]+n[2] != p.many {
			return fmt.Errorf("%v messages are there", n)
		}
		return nil
	})
	one, other := p.take(t, b, pairOne), p.take(t, b, pairOther)
	if !maps.Equal(one, other) {
		t.Errorf("%d pairs here and %d there, or different ones", len(one), len(other))
	}
	all := p.take(t, b, pairLeft)
	for body := range p.take(t, b, pairRight) {
		all[body] = true
	}
	for pair := range one {
		for body := range strings.SplitSeq(pair[1:], "+") {
			if all[body] {
				t.Errorf("%s is there twice", body)
			}
			all[body] = true
		}
	}
	if len(all) != 2*p.many {
		t.Errorf("%d messages are there, want %d", len(all), 2*p.many)
	}
	for pair := range p.committed {
		if !one[pair] {
			t.Errorf("%s was committed and is lost", pair)
		}
	}
	return len(one)
}

// take empties a queue.
func (p *Pairing) take(t testing.TB, b *Broker, queue string) map[string]bool {
	t.Helper()
	bodies := make(map[string]bool)
	ch := b.Channel(t)
	for {
		d, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return bodies
		}
		if bodies[string(d.Body)] {
			t.Errorf("%s: %s is there twice", queue, d.Body)
		}
		bodies[string(d.Body)] = true
	}
}

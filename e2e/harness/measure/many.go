package measure

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// manyConnections fill and read the queues at once.
const manyConnections = 4

// ManyQueues is what a number of durable queues with one message each cost.
type ManyQueues struct {
	// Queues is how many there are.
	Queues int
	// HeapWithout and HeapWith are the bytes of heap in use after a garbage collection, before the queues were declared and with them.
	HeapWithout, HeapWith float64
	// Fill is how long it took to declare them and to have one message confirmed in each.
	Fill time.Duration
	// FirstAnswer is the time from exec of the broker on the same files to the first answer of AMQP.
	FirstAnswer time.Duration
	// AllAnswered is the time from exec until each queue has answered a basic.get with its message.
	AllAnswered time.Duration
}

// HeapPerQueue is the heap that one queue takes, in bytes.
func (m ManyQueues) HeapPerQueue() float64 { return (m.HeapWith - m.HeapWithout) / float64(m.Queues) }

// String shows the result in one line.
func (m ManyQueues) String() string {
	return fmt.Sprintf("%d queues: filled in %v, %.1f KB of heap each (%.1f MB without, %.1f MB with); after exec AMQP answers in %v, the last queue in %v", m.Queues,
		m.Fill.Round(time.Millisecond), m.HeapPerQueue()/1e3, m.HeapWithout/1e6, m.HeapWith/1e6, m.FirstAnswer.Round(time.Millisecond), m.AllAnswered.Round(time.Millisecond))
}

// Many fills count durable queues of a prepared broker with one message each, measures its heap, ends it with SIGKILL or SIGTERM, and measures how
// long it takes until each queue has given its message back.
func Many(b *harness.Broker, count int, kill bool) (ManyQueues, error) {
	m := ManyQueues{Queues: count}
	b.SetEnv(harness.SmallHeap...)
	if err := b.Exec(); err != nil {
		return m, err
	}
	defer b.Close()
	if err := b.AwaitAMQP(time.Minute); err != nil {
		return m, err
	}
	var err error
	if m.HeapWithout, err = b.HeapInUse(); err != nil {
		return m, err
	}
	began := time.Now()
	if err := everyQueue(b, count, fill); err != nil {
		return m, fmt.Errorf("fill: %w", err)
	}
	m.Fill = time.Since(began)
	if m.HeapWith, err = b.HeapInUse(); err != nil {
		return m, err
	}
	if kill {
		b.Kill9()
	} else if err := b.Stop(); err != nil {
		return m, err
	}
	b.SetEnv() // a start is measured as users have it
	began = time.Now()
	if err := b.Exec(); err != nil {
		return m, err
	}
	if err := b.AwaitAMQP(time.Minute); err != nil {
		return m, err
	}
	m.FirstAnswer = time.Since(began)
	if err := everyQueue(b, count, empty); err != nil {
		return m, fmt.Errorf("after the restart: %w", err)
	}
	m.AllAnswered = time.Since(began)
	return m, nil
}

func manyName(i int) string { return fmt.Sprintf("many-%06d", i) }

func fill(ch *amqp.Channel, i int) error {
	if _, err := ch.QueueDeclare(manyName(i), true, false, false, false, nil); err != nil {
		return err
	}
	return harness.TryPublishConfirmed(ch, "", manyName(i), []byte(manyName(i)))
}

func empty(ch *amqp.Channel, i int) error {
	d, ok, err := ch.Get(manyName(i), true)
	if err == nil && (!ok || string(d.Body) != manyName(i)) {
		err = fmt.Errorf("queue %s gave %q", manyName(i), d.Body)
	}
	return err
}

// everyQueue does something with each queue, on a few connections at once.
func everyQueue(b *harness.Broker, count int, do func(*amqp.Channel, int) error) error {
	return eachQueue(b, manyConnections, count, do)
}

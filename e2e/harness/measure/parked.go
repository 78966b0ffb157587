package measure

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// declareConnections declare queues at once.
const declareConnections = 50

// ParkedQueues is what a number of durable queues cost that hold one message each and that nobody uses.
type ParkedQueues struct {
	// Queues is how many there are.
	Queues int
	// DeclareRate is how many were declared in a second, by 50 connections.
	DeclareRate float64
	// Fill is how long it took to have one message confirmed in each, Park until all of them were parked.
	Fill, Park time.Duration
	// HeapWithout and HeapWith are the bytes of heap in use after a garbage collection, before the queues were declared and when all were parked.
	HeapWithout, HeapWith float64
	// FirstPublish is how long a publish to a parked queue took until it was confirmed, one after the other.
	FirstPublish Times
	// FirstAnswer is the time from exec of the broker on the same files to the first answer of AMQP, FirstGet until any queue gave its message.
	FirstAnswer, FirstGet time.Duration
	// StillParked is how many were parked then, IdleCores the share of a core that the broker took for them.
	StillParked, IdleCores float64
}

// HeapPerQueue is the heap that one queue takes, in bytes.
func (m *ParkedQueues) HeapPerQueue() float64 {
	return (m.HeapWith - m.HeapWithout) / float64(m.Queues)
}

// String shows the result in one line.
func (m *ParkedQueues) String() string {
	return fmt.Sprintf("%d queues: %.0f declares/s, filled in %v, parked %v later, %.1f KB of heap each; first publish: %v; after exec AMQP answers in %v, a queue in %v, %.0f are parked and take %.3f cores", m.Queues,
		m.DeclareRate, m.Fill.Round(time.Millisecond), m.Park.Round(time.Millisecond), m.HeapPerQueue()/1e3, m.FirstPublish, m.FirstAnswer.Round(time.Millisecond), m.FirstGet.Round(time.Millisecond), m.StillParked, m.IdleCores)
}

const (
	parkedMetric = `warren_raft_groups{state="parked"}`
	cpuMetric    = "process_cpu_seconds_total"
)

// Parked fills count durable queues of a prepared broker with one message each, waits until they are parked, publishes to some, has the broker killed and started again, and leaves it alone for as long as idle.
func Parked(b *harness.Broker, count, publishes int, idle time.Duration) (ParkedQueues, error) {
	m := ParkedQueues{Queues: count}
	b.SetEnv("GOGC=50") // so that the heap can be measured soon; SmallHeap would have the collector busy with all replicas that run at first
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
	if err := m.fill(b); err != nil {
		return m, err
	}
	if m.HeapWith, err = b.HeapInUse(); err != nil {
		return m, err
	}
	if m.FirstPublish, err = firstPublishes(b, count, publishes); err != nil {
		return m, err
	}
	if err := m.awaitParked(b); err != nil {
		return m, err
	}
	b.Kill9()
	b.SetEnv() // a start and an idle broker are measured as users have them
	if err := m.restart(b); err != nil {
		return m, err
	}
	before, err := b.Metric(cpuMetric)
	if err != nil {
		return m, err
	}
	time.Sleep(idle)
	after, err := b.Metric(cpuMetric)
	m.IdleCores = (after - before) / idle.Seconds()
	return m, err
}

// fill declares the queues and puts a message into each.
func (m *ParkedQueues) fill(b *harness.Broker) error {
	began := time.Now()
	declare := func(ch *amqp.Channel, i int) error {
		_, err := ch.QueueDeclare(manyName(i), true, false, false, false, nil)
		return err
	}
	if err := eachQueue(b, declareConnections, m.Queues, declare); err != nil {
		return fmt.Errorf("declare: %w", err)
	}
	m.DeclareRate = float64(m.Queues) / time.Since(began).Seconds()
	began = time.Now()
	put := func(ch *amqp.Channel, i int) error {
		return harness.TryPublishConfirmed(ch, "", manyName(i), []byte(manyName(i)))
	}
	if err := eachQueue(b, declareConnections, m.Queues, put); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	m.Fill = time.Since(began)
	began = time.Now()
	err := m.awaitParked(b)
	m.Park = time.Since(began)
	return err
}

// parkPatience is how long parking may take for each queue, and for all of them.
const parkPatience, parkPatienceAll = 20 * time.Millisecond, 2 * time.Minute

func (m *ParkedQueues) awaitParked(b *harness.Broker) error {
	for late := time.Now().Add(parkPatienceAll + time.Duration(m.Queues)*parkPatience); ; time.Sleep(100 * time.Millisecond) {
		n, err := b.Metric(parkedMetric)
		if err != nil || n >= float64(m.Queues) {
			return err
		}
		if time.Now().After(late) {
			return fmt.Errorf("%.0f of %d queues are parked", n, m.Queues)
		}
	}
}

// firstPublishes measures publishes to queues that are parked, some of all.
func firstPublishes(b *harness.Broker, count, publishes int) (Times, error) {
	conn, err := harness.Dial(b.AMQPURL())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	times := make(Times, 0, publishes)
	for i := range publishes {
		began := time.Now()
		if err := harness.TryPublishConfirmed(ch, "", manyName(i*(count/publishes)), []byte("again")); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times, nil
}

// restart measures a start of the broker that was killed.
func (m *ParkedQueues) restart(b *harness.Broker) error {
	began := time.Now()
	if err := b.Exec(); err != nil {
		return err
	}
	if err := b.AwaitAMQP(time.Minute); err != nil {
		return err
	}
	m.FirstAnswer = time.Since(began)
	conn, err := harness.Dial(b.AMQPURL())
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = empty(ch, m.Queues-1)
	}
	m.FirstGet = time.Since(began)
	for err == nil && m.StillParked < float64(m.Queues-1) && time.Since(began) < 10*time.Second { // of a sampler that looks once a second
		m.StillParked, err = b.Metric(parkedMetric)
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// eachQueue does something with each queue, on some connections at once.
func eachQueue(b *harness.Broker, connections, count int, do func(*amqp.Channel, int) error) error {
	errs := make([]error, connections)
	var workers sync.WaitGroup
	for w := range connections {
		workers.Go(func() {
			conn, err := harness.Dial(b.AMQPURL())
			if err != nil {
				errs[w] = err
				return
			}
			defer conn.Close()
			ch, err := conn.Channel()
			for i := w; i < count && err == nil; i += connections {
				err = do(ch, i)
			}
			errs[w] = err
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

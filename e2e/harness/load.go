package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

// Source is one publisher of a Load.
type Source struct {
	// Publisher accounts for its messages.
	Publisher *totalqueue.Publisher
	// Exchange and Key are where it publishes to.
	Exchange, Key string
	// Window is how many of its messages may be unanswered.
	Window int
	// PerSecond paces it; 0 is as fast as the window allows.
	PerSecond int
	// BodyBytes and BodyBytesMax bound the size of the bodies; most are small, a few are close to the largest.
	BodyBytes, BodyBytesMax int
}

// Sink is one consumer of a Load.
type Sink struct {
	// Queue is what it consumes.
	Queue string
	// Prefetch is its prefetch count.
	Prefetch int
	// Hold is how many messages it leaves unacknowledged: the first ones of each connection, until that ends; with Multiple the latest ones.
	Hold int
	// Multiple acknowledges runs of messages instead of single ones.
	Multiple bool
	// RequeueEvery returns every so many-th message to the queue once; 0 for none.
	RequeueEvery int
}

// Load is traffic that goes on while the broker dies and comes back: clients connect again by themselves.
type Load struct {
	url         string
	ledger      *totalqueue.Ledger
	sources     []*source
	publishing  context.Context
	consuming   context.Context
	stopPublish context.CancelFunc
	stopConsume context.CancelFunc
	publishers  sync.WaitGroup
	consumers   sync.WaitGroup
	unanswered  atomic.Int64 // at the end, with the broker alive
}

type source struct {
	Source
	confirms atomic.Int64
	rng      *rand.Rand
	tokens   float64
	last     time.Time
}

// reconnectPause is how long a client waits before it dials again.
const reconnectPause = 10 * time.Millisecond

// StartLoad starts publishers and consumers. Stop it in the test; the end of the test stops it as well.
func StartLoad(t testing.TB, b *Broker, ledger *totalqueue.Ledger, seed uint64, sources []Source, sinks []Sink) *Load {
	l := &Load{url: b.AMQPURL(), ledger: ledger}
	l.publishing, l.stopPublish = context.WithCancel(context.Background())
	l.consuming, l.stopConsume = context.WithCancel(context.Background())
	t.Cleanup(func() {
		l.stopPublish()
		l.stopConsume()
	})
	for i, s := range sources {
		src := &source{Source: s, rng: rand.New(rand.NewPCG(seed, uint64(i))), last: time.Now()}
		l.sources = append(l.sources, src)
		l.publishers.Go(func() { again(l.publishing, func() { l.publish(src) }) })
	}
	for _, s := range sinks {
		l.consumers.Go(func() { again(l.consuming, func() { l.consume(s) }) })
	}
	return l
}

// again repeats what a client does from connect to disconnect until it is stopped.
func again(ctx context.Context, session func()) {
	for ctx.Err() == nil {
		session()
		select {
		case <-ctx.Done():
		case <-time.After(reconnectPause):
		}
	}
}

// StopPublishing ends the publishers once the broker has answered what they sent; it is an error if much time does not suffice for that.
func (l *Load) StopPublishing() error {
	l.stopPublish()
	l.publishers.Wait()
	if n := l.unanswered.Load(); n > 0 {
		return fmt.Errorf("%d publishes have no answer %v after the last of them", n, answerTimeout)
	}
	return nil
}

// Stop ends publishers and consumers. What consumers held returns to the queues.
func (l *Load) Stop() error {
	err := l.StopPublishing()
	l.stopConsume()
	l.consumers.Wait()
	return err
}

// AwaitConfirms waits until every publisher has got a confirm that it had not when the call began.
func (l *Load) AwaitConfirms(timeout time.Duration) error {
	before := make([]int64, len(l.sources))
	for i, s := range l.sources {
		before[i] = s.confirms.Load()
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(5 * time.Millisecond) {
		waiting := ""
		for i, s := range l.sources {
			if s.confirms.Load() == before[i] {
				waiting += " " + s.Publisher.Name()
			}
		}
		if waiting == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no confirm within %v for publishers%s", timeout, waiting)
		}
	}
}

// published remembers which message has which delivery tag on one channel.
type published struct {
	mu   sync.Mutex
	seqs []uint64 // index tag-1
}

func (p *published) add(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seqs = append(p.seqs, seq)
}

func (p *published) seq(tag uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tag == 0 || tag > uint64(len(p.seqs)) {
		return 0
	}
	return p.seqs[tag-1]
}

// publish is one connection of a publisher, until the broker or the load ends.
func (l *Load) publish(s *source) {
	conn, err := Dial(l.url)
	if err != nil {
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil || ch.Confirm(false) != nil {
		return
	}
	sent := &published{}
	slots := make(chan struct{}, s.Window)
	answers := ch.NotifyPublish(make(chan amqp.Confirmation, s.Window))
	over := make(chan struct{})
	go func() {
		defer close(over)
		for a := range answers {
			if seq := sent.seq(a.DeliveryTag); a.Ack {
				s.Publisher.Confirmed(seq)
				s.confirms.Add(1)
			} else {
				s.Publisher.Nacked(seq)
			}
			<-slots
		}
	}()
	for s.pace(l.publishing) {
		select {
		case <-over:
			return
		case <-l.publishing.Done():
			continue
		case slots <- struct{}{}:
		}
		id, body := s.Publisher.Next(s.size())
		sent.add(id.Seq)
		err := ch.PublishWithContext(context.Background(), s.Exchange, s.Key, false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, MessageId: id.String(), Body: body,
		})
		if err != nil {
			return
		}
	}
	l.unanswered.Add(awaitAnswers(slots, over))
}

// awaitAnswers waits until nothing is unanswered or the connection ends. It returns how much is unanswered when the broker takes too long.
func awaitAnswers(slots chan struct{}, over <-chan struct{}) int64 {
	late := time.After(answerTimeout)
	for len(slots) > 0 {
		select {
		case <-over:
			return 0
		case <-late:
			return int64(len(slots))
		case <-time.After(time.Millisecond):
		}
	}
	return 0
}

// pace waits for the publisher's turn. It returns false when the load stops.
func (s *source) pace(ctx context.Context) bool {
	if s.PerSecond == 0 {
		return ctx.Err() == nil
	}
	for {
		now := time.Now()
		s.tokens = min(s.tokens+now.Sub(s.last).Seconds()*float64(s.PerSecond), float64(s.PerSecond)/50)
		s.last = now
		if s.tokens >= 1 {
			s.tokens--
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Millisecond):
		}
	}
}

// size draws the size of a body: one in a hundred is up to the largest.
func (s *source) size() int {
	if s.BodyBytesMax > s.BodyBytes && s.rng.IntN(100) == 0 {
		return s.BodyBytes + s.rng.IntN(s.BodyBytesMax-s.BodyBytes)
	}
	return s.rng.IntN(s.BodyBytes + 1)
}

// held is a delivery that its consumer has not acknowledged.
type held struct {
	tag uint64
	id  totalqueue.ID
}

// consume is one connection of a consumer.
func (l *Load) consume(s Sink) {
	conn, err := Dial(l.url)
	if err != nil {
		return
	}
	defer conn.Close()
	stopped := context.AfterFunc(l.consuming, func() { conn.Close() })
	defer stopped()
	ch, err := conn.Channel()
	if err != nil || ch.Qos(s.Prefetch, 0, false) != nil {
		return
	}
	deliveries, err := ch.Consume(s.Queue, "", false, false, false, false, nil)
	if err != nil {
		return
	}
	c := l.ledger.Consumer(s.Queue)
	defer c.Close()
	var open []held
	count := 0
	for d := range deliveries {
		id, ok := c.Deliver(totalqueue.Delivery{Body: d.Body, MessageID: d.MessageId, Redelivered: d.Redelivered})
		if !ok {
			continue
		}
		if count++; s.RequeueEvery > 0 && count%s.RequeueEvery == 0 && !d.Redelivered {
			err = d.Nack(false, true)
		} else {
			open = append(open, held{d.DeliveryTag, id})
			open, err = s.settle(ch, c, open)
		}
		if err != nil {
			return
		}
	}
}

// settle acknowledges what the consumer does not want to hold.
func (s Sink) settle(ch *amqp.Channel, c *totalqueue.Consumer, open []held) ([]held, error) {
	switch {
	case s.Multiple && len(open) >= 2*max(s.Hold, 1):
		cut := len(open) - s.Hold
		if err := ch.Ack(open[cut-1].tag, true); err != nil {
			return open, err
		}
		for _, h := range open[:cut] {
			c.Acked(h.id)
		}
		return append(open[:0], open[cut:]...), nil
	case !s.Multiple && len(open) > s.Hold:
		h := open[len(open)-1]
		if err := ch.Ack(h.tag, false); err != nil {
			return open, err
		}
		c.Acked(h.id)
		return open[:len(open)-1], nil
	}
	return open, nil
}

// drainQuiet is how long an empty queue must stay quiet to count as drained.
const drainQuiet = 300 * time.Millisecond

// Drain empties a queue that nobody else consumes and notes everything that comes. Afterwards the queue is empty for good: what was acknowledged does
// not come back.
func Drain(t testing.TB, b *Broker, ledger *totalqueue.Ledger, queue string) {
	t.Helper()
	conn := b.Connect(t)
	ch := Channel(t, conn)
	if err := ch.Qos(2000, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatalf("drain %s: %v", queue, err)
	}
	c := ledger.Drain(queue)
	if err := drain(b, queue, c, deliveries); err != nil {
		t.Fatalf("drain %s: %v", queue, err)
	}
	c.Close()
	if err := ch.Close(); err != nil {
		t.Fatalf("drain %s: %v", queue, err)
	}
	conn.Close()
	leftOver(t, b, ledger, queue)
}

// leftOver wants a drained queue to be empty, and says what is in it otherwise.
func leftOver(t testing.TB, b *Broker, ledger *totalqueue.Ledger, queue string) {
	t.Helper()
	if b.Count(t, queue) == 0 {
		return
	}
	ch := b.Channel(t)
	const examplesMax = 5
	for i := 0; ; i++ {
		d, ok, err := ch.Get(queue, false)
		if err != nil {
			t.Fatalf("get from the drained queue %s: %v", queue, err)
		}
		if !ok {
			return
		}
		if i < examplesMax {
			t.Errorf("queue %s was drained and acknowledged, and still has, %d behind it, redelivered=%t: %s", queue, d.MessageCount, d.Redelivered,
				ledger.Describe(queue, d.Body))
		}
	}
}

// drainBatch is how many messages a drain acknowledges at once.
const drainBatch = 200

func drain(b *Broker, queue string, c *totalqueue.Consumer, deliveries <-chan amqp.Delivery) error {
	var last amqp.Delivery
	var open []totalqueue.ID
	unsettled := 0
	settle := func() error {
		if unsettled == 0 {
			return nil
		}
		if err := last.Ack(true); err != nil {
			return err
		}
		for _, id := range open {
			c.Acked(id)
		}
		open, unsettled = open[:0], 0
		return nil
	}
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errors.New("the consumer ended")
			}
			if id, known := c.Deliver(totalqueue.Delivery{Body: d.Body, MessageID: d.MessageId, Redelivered: d.Redelivered}); known {
				open = append(open, id)
			}
			last = d
			if unsettled++; unsettled < drainBatch {
				continue
			}
			if err := settle(); err != nil {
				return err
			}
		case <-time.After(drainQuiet):
			if err := settle(); err != nil {
				return err
			}
			ready, err := b.TryCount(queue)
			if err != nil || ready == 0 {
				return err
			}
		}
	}
}

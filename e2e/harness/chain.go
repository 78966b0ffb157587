package harness

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The queues of a Chain. What is published to chainMain is rejected into chainRetry, where it expires into chainDead.
const (
	chainMain  = "chain-main"
	chainRetry = "chain-retry"
	chainDead  = "chain-dead"
	// chainTTLMillis is the time to live in chainRetry.
	chainTTLMillis = 50
	chainWindow    = 500
	// chainRemembersMillis is for how long chainMain knows a message again.
	chainRemembersMillis = 3_600_000
	// chainRest is how long a chain may take to come to rest after the last fault.
	chainRest = 2 * time.Minute
)

// Chain is numbered messages on their way through three queues, while brokers die and come back: its clients connect again and publish again what was not confirmed, and the first queue, which
// remembers their ids, takes each once.
type Chain struct {
	url       func() string
	many      int
	pause     time.Duration // between two messages
	published atomic.Int64
	confirmed []atomic.Bool
	ctx       context.Context
	stop      context.CancelFunc
	publisher sync.WaitGroup
	rejecter  sync.WaitGroup
}

// StartChain declares the queues and starts to publish so many messages, so many per second; 0 is as fast as they are confirmed. url names a broker that may be alive each time it is asked.
func StartChain(t testing.TB, b *Broker, url func() string, many, perSecond int) *Chain {
	t.Helper()
	ch := b.Channel(t)
	to := func(queue string) amqp.Table {
		return amqp.Table{amqp.QueueTypeArg: Quorum, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
	}
	retry := to(chainDead)
	retry["x-message-ttl"] = chainTTLMillis
	main := to(chainRetry)
	main["x-message-deduplication"], main["x-cache-size"], main["x-cache-ttl"] = true, many, chainRemembersMillis
	for queue, args := range map[string]amqp.Table{chainMain: main, chainRetry: retry, chainDead: {amqp.QueueTypeArg: Quorum}} {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	c := &Chain{url: url, many: many, confirmed: make([]atomic.Bool, many)}
	if perSecond > 0 {
		c.pause = time.Second / time.Duration(perSecond)
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	t.Cleanup(func() {
		c.stop()
		c.publisher.Wait()
		c.rejecter.Wait()
	})
	c.publisher.Go(func() {
		for c.ctx.Err() == nil && !c.allConfirmed() {
			c.publish()
			time.Sleep(reconnectPause)
		}
	})
	c.rejecter.Go(func() { again(c.ctx, c.reject) })
	return c
}

// Published is how many messages were sent so far.
func (c *Chain) Published() int { return int(c.published.Load()) }

// Reached returns an error until so many messages were sent.
func (c *Chain) Reached(many int) error {
	if n := c.Published(); n < many {
		return fmt.Errorf("%d messages are published, want %d", n, many)
	}
	return nil
}

// unconfirmed lists the messages that are to be published: those that were sent without an answer, then those that were not sent.
func (c *Chain) unconfirmed() (open []int) {
	for n := range c.many {
		if !c.confirmed[n].Load() {
			open = append(open, n)
		}
	}
	return open
}

func (c *Chain) allConfirmed() bool { return c.Published() == c.many && len(c.unconfirmed()) == 0 }

// publish is one connection of the publisher.
func (c *Chain) publish() {
	conn, err := Dial(c.url())
	if err != nil {
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil || ch.Confirm(false) != nil {
		return
	}
	open := c.unconfirmed()
	again, began := len(open), time.Now()
	over := conn.NotifyClose(make(chan *amqp.Error, 1))
	slots := make(chan struct{}, chainWindow)
	answers := ch.NotifyPublish(make(chan amqp.Confirmation, chainWindow))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for a := range answers {
			if a.Ack {
				c.confirmed[open[a.DeliveryTag-1]].Store(true)
			}
			<-slots
		}
	}()
	for i, n := range open {
		time.Sleep(time.Until(began.Add(time.Duration(max(0, i-again)) * c.pause)))
		select {
		case slots <- struct{}{}:
		case <-over:
			return
		case <-c.ctx.Done():
			return
		}
		c.published.Store(max(c.published.Load(), int64(n+1)))
		p := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: strconv.AppendInt(nil, int64(n), 10), Headers: amqp.Table{"x-deduplication-header": int64(n)}}
		if err := ch.PublishWithContext(context.Background(), "", chainMain, false, false, p); err != nil {
			return
		}
	}
	for range chainWindow { // all are answered when all slots are free
		select {
		case slots <- struct{}{}:
		case <-over:
			return
		case <-c.ctx.Done():
			return
		}
	}
}

// reject is one connection of the consumer that rejects everything.
func (c *Chain) reject() {
	conn, err := Dial(c.url())
	if err != nil {
		return
	}
	defer conn.Close()
	stopped := context.AfterFunc(c.ctx, func() { conn.Close() })
	defer stopped()
	ch, err := conn.Channel()
	if err != nil || ch.Qos(chainWindow, 0, false) != nil {
		return
	}
	deliveries, err := ch.Consume(chainMain, "", false, false, false, false, nil)
	if err != nil {
		return
	}
	for d := range deliveries {
		if len(deliveries) > 0 && d.DeliveryTag%50 != 0 {
			continue // rejected with a later one
		}
		if d.Nack(true, false) != nil {
			return
		}
	}
}

// Finish waits until the chain is at rest and holds it to its promise: every message is confirmed and in the last queue exactly once, and nothing is elsewhere. It returns how many publishes were
// known as repeated. All brokers of a cluster must say that it is at rest.
func (c *Chain) Finish(t testing.TB, brokers ...*Broker) int {
	t.Helper()
	c.publisher.Wait()
	Eventually(t, chainRest, func() error {
		for _, b := range brokers {
			if err := rests(b); err != nil {
				return err
			}
		}
		return nil
	})
	times := c.drain(t, brokers[0])
	lost, doubled := 0, 0
	for n := range c.many {
		switch {
		case times[n] == 0:
			lost++
		case times[n] > 1:
			doubled++
		}
	}
	if lost+doubled > 0 {
		t.Errorf("of %d confirmed messages %d are lost, %d arrived more than once", c.many, lost, doubled)
	}
	return repeats(t, brokers[0])
}

// repeats is how many publishes the first queue knew, since its leader leads.
func repeats(t testing.TB, b *Broker) int {
	t.Helper()
	var q struct {
		Stats struct {
			Duplicates int `json:"duplicates"`
		} `json:"message_stats"`
	}
	if err := b.TryGet(Path("queues", "/", chainMain), &q); err != nil {
		t.Fatal(err)
	}
	return q.Stats.Duplicates
}

// rests returns an error while a broker has messages that have not arrived.
func rests(b *Broker) error {
	for _, queue := range []string{chainMain, chainRetry} {
		var q struct {
			Messages int `json:"messages"`
			Dead     int `json:"messages_dlx"`
		}
		if err := b.TryGet(Path("queues", "/", queue), &q); err != nil {
			return err
		}
		if q.Messages+q.Dead > 0 {
			return fmt.Errorf("%s still has %d messages and %d dead letters", queue, q.Messages, q.Dead)
		}
	}
	return nil
}

// drain takes all that arrived.
func (c *Chain) drain(t testing.TB, b *Broker) []int {
	t.Helper()
	times := make([]int, c.many)
	ch := b.Channel(t)
	deliveries, err := ch.Consume(chainDead, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case d, ok := <-deliveries:
			n, err := strconv.Atoi(string(d.Body))
			if !ok || err != nil || n >= c.many {
				t.Fatalf("%s delivers %q", chainDead, d.Body)
			}
			times[n]++
		case <-time.After(drainQuiet):
			if left := b.Count(t, chainDead); left == 0 {
				return times
			}
		}
	}
}

package reliability

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

const (
	churnClients     = 12
	churnDefault     = 8 * time.Second
	churnFull        = 5 * time.Minute
	goroutineSlack   = 25
	churnSettleAfter = 20 * time.Second
)

// TestChurnLeavesNothing has clients that declare, bind, consume, cancel, reject, delete and vanish at random, on the same few names. Errors are
// what such clients deserve; the broker must report no bug, serve on, and in the end hold no more than in the beginning.
func TestChurnLeavesNothing(t *testing.T) {
	length := churnDefault
	if harness.Full() {
		length = churnFull
	}
	b := harness.Start(t, harness.Options{Patience: length + 2*time.Minute})
	churn(t, b, time.Second, 1) // what is made once, pools and the like, is there
	removeAll(t, b)
	before := goroutines(t, b)
	churn(t, b, length, number(t, envSeed, uint64(time.Now().UnixNano())))
	removeAll(t, b)
	harness.Eventually(t, churnSettleAfter, func() error {
		if after := goroutines(t, b); after > before+goroutineSlack {
			return fmt.Errorf("%v goroutines, before the churn there were %v", after, before)
		}
		return nil
	})
	for line := range strings.Lines(b.Log()) {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "panic") {
			t.Errorf("the broker says: %s", line)
		}
	}
	ch := b.Channel(t)
	harness.Declare(t, ch, "after", harness.Quorum)
	harness.PublishConfirmed(t, ch, "", "after", []byte("x"))
}

func goroutines(t *testing.T, b *harness.Broker) float64 {
	t.Helper()
	n, err := b.Metric("go_goroutines")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// removeAll deletes what the churn declared.
func removeAll(t *testing.T, b *harness.Broker) {
	t.Helper()
	for i := range churnNames {
		ch := b.Channel(t)
		if _, err := ch.QueueDelete(churnQueue(i), false, false, false); err != nil {
			t.Errorf("delete %s: %v", churnQueue(i), err)
		}
		if err := ch.ExchangeDelete(churnExchange(i), false, false); err != nil {
			t.Error(err)
		}
		ch.Close()
	}
}

const churnNames = 4

func churnQueue(i int) string    { return fmt.Sprintf("churn-%d", i) }
func churnExchange(i int) string { return fmt.Sprintf("churn-x-%d", i) }

func churn(t *testing.T, b *harness.Broker, length time.Duration, seed uint64) {
	t.Helper()
	t.Logf("%s=%d", envSeed, seed)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var clients sync.WaitGroup
	for i := range churnClients {
		clients.Go(func() {
			c := &churner{url: b.AMQPURL(), rng: rand.New(rand.NewPCG(seed, uint64(i)))}
			for ctx.Err() == nil {
				c.session(ctx)
			}
		})
	}
	clients.Wait()
}

// churner is one restless client.
type churner struct {
	url string
	rng *rand.Rand
}

// session is one connection: some channels, each used until something goes wrong or it has done enough.
func (c *churner) session(ctx context.Context) {
	conn, err := harness.Dial(c.url)
	if err != nil {
		return
	}
	defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
	for range 1 + c.rng.IntN(4) {
		ch, err := conn.Channel()
		if err != nil {
			return
		}
		closed := ch.NotifyClose(make(chan *amqp.Error, 1))
		for step := 0; step < 60 && ctx.Err() == nil && len(closed) == 0; step++ {
			c.step(ctx, ch)
		}
		if c.rng.IntN(2) == 0 {
			ch.Close()
		}
	}
}

// step does one thing. Its error is of no interest: the broker may refuse it.
func (c *churner) step(ctx context.Context, ch *amqp.Channel) {
	queue, exchange := churnQueue(c.rng.IntN(churnNames)), churnExchange(c.rng.IntN(churnNames))
	kind := []string{harness.Classic, harness.Quorum}[c.rng.IntN(2)]
	switch c.rng.IntN(16) {
	case 0, 1:
		_, _ = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: kind})
	case 2:
		_, _ = ch.QueueDelete(queue, c.rng.IntN(2) == 0, c.rng.IntN(2) == 0, false)
	case 3:
		_ = ch.ExchangeDeclare(exchange, amqp.ExchangeTopic, true, false, false, false, nil)
	case 4:
		_ = ch.QueueBind(queue, "a.#", exchange, false, nil)
	case 5:
		_, _ = ch.QueuePurge(queue, false)
	case 6:
		_ = ch.Qos(c.rng.IntN(20), 0, c.rng.IntN(4) == 0)
	case 7, 8:
		c.consume(ch, queue)
	case 9:
		if d, ok, err := ch.Get(queue, c.rng.IntN(2) == 0); err == nil && ok {
			c.settle(d)
		}
	case 10:
		_ = ch.Confirm(false)
	case 11:
		_ = ch.Recover(true)
	default:
		for range c.rng.IntN(30) {
			_ = ch.PublishWithContext(ctx, []string{"", exchange}[c.rng.IntN(2)], []string{queue, "a.b"}[c.rng.IntN(2)], c.rng.IntN(4) == 0, false,
				amqp.Publishing{DeliveryMode: amqp.Persistent, Body: make([]byte, c.rng.IntN(3000))})
		}
	}
}

// consume takes some deliveries and settles them in every way, or leaves them.
func (c *churner) consume(ch *amqp.Channel, queue string) {
	tag := fmt.Sprint(c.rng.Uint64())
	deliveries, err := ch.Consume(queue, tag, false, false, false, false, nil)
	if err != nil {
		return
	}
	for range c.rng.IntN(20) {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return
			}
			c.settle(d)
		case <-time.After(5 * time.Millisecond):
		}
	}
	go func() { // the client library blocks when nobody takes its deliveries
		for range deliveries {
		}
	}()
	if c.rng.IntN(3) > 0 {
		_ = ch.Cancel(tag, false)
	}
}

func (c *churner) settle(d amqp.Delivery) {
	switch c.rng.IntN(6) {
	case 0:
		_ = d.Nack(c.rng.IntN(2) == 0, true)
	case 1:
		_ = d.Reject(false)
	case 2:
		_ = d.Ack(true)
	case 3, 4:
		_ = d.Ack(false)
	}
}

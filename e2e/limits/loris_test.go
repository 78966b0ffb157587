package limits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/measure"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

// slowKind is a way to keep a broker waiting.
type slowKind struct {
	name string
	// begin is done at once, then comes one octet of rest per second; without a rest nothing comes any more.
	begin func(*rawamqp.Conn) error
	rest  string
}

// slowKinds are in turn what attackers do.
var slowKinds = []slowKind{
	{"a slow protocol header", nothing, rawamqp.Header},
	{"a slow start-ok", started, string(rawamqp.StartOK(rawamqp.Guest).Append(nil))},
	{"a slow message", loggedIn, string(rawamqp.Publish(1, "a key that takes longer than anybody waits").Append(nil))},
}

func nothing(*rawamqp.Conn) error { return nil }

func loggedIn(c *rawamqp.Conn) error {
	if err := c.Handshake(rawamqp.Guest); err != nil {
		return err
	}
	return c.OpenChannel(1)
}

// attack keeps sockets open that stop in the middle of the handshake and others that go on by an octet a second, and opens another one for each that the
// broker closes.
type attack struct {
	address string
	over    context.Context
	workers sync.WaitGroup
	open    atomic.Int64
	// cut counts the sockets that the broker has closed, by kind of slowKinds.
	cut    []atomic.Int64
	failed atomic.Pointer[error]
}

// startAttack opens the sockets and returns when all are open once. The attack ends with the test, or with its stop.
func startAttack(t *testing.T, b *harness.Broker, halfOpens, slows int) (a *attack, stop func()) {
	t.Helper()
	over, end := context.WithCancel(t.Context())
	a = &attack{address: b.AMQP, over: over, cut: make([]atomic.Int64, len(slowKinds))}
	for i := range halfOpens {
		a.workers.Go(func() { a.again(nil, halfOpen[i%3].send, "") })
	}
	for i := range slows {
		kind := slowKinds[i%len(slowKinds)]
		a.workers.Go(func() { a.again(&a.cut[i%len(slowKinds)], kind.begin, kind.rest) })
	}
	stop = func() {
		end()
		a.workers.Wait()
	}
	t.Cleanup(stop)
	harness.Eventually(t, 30*time.Second, func() error {
		if n := a.open.Load(); n < int64(halfOpens+slows)*9/10 {
			return fmt.Errorf("%d sockets are open", n)
		}
		return nil
	})
	return a, stop
}

// again opens one socket after the other.
func (a *attack) again(cut *atomic.Int64, begin func(*rawamqp.Conn) error, rest string) {
	for a.over.Err() == nil {
		c, err := rawamqp.Dial(a.address)
		if err != nil {
			a.fail(err)
			return
		}
		unhook := context.AfterFunc(a.over, func() { c.Close() })
		a.open.Add(1)
		err = begin(c)
		for i := 0; err == nil && i < len(rest); i++ {
			if err = c.SendRaw(rest[i : i+1]); err == nil {
				err = silentFor(c, time.Second)
			}
		}
		if err == nil {
			_, err = c.Conn.Read(make([]byte, 512))
		}
		a.open.Add(-1)
		if cut != nil && a.over.Err() == nil {
			cut.Add(1)
		}
		unhook()
		c.Close()
	}
}

// silentFor lets a socket be for a while; an error means that it was closed.
func silentFor(c *rawamqp.Conn, d time.Duration) error {
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	_, err := c.Conn.Read(make([]byte, 512))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return err
}

func (a *attack) fail(err error) { a.failed.CompareAndSwap(nil, &err) }

// roundTrips publishes message after message for a while and measures from the publish until it is confirmed and delivered.
func roundTrips(t *testing.T, b *harness.Broker, d time.Duration) measure.Times {
	t.Helper()
	const queue = "legitimate"
	b.FreshQueue(t, queue, harness.Quorum)
	conn := b.Connect(t)
	defer conn.Close()
	ch := harness.Channel(t, conn)
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	var times measure.Times
	body := make([]byte, 1024)
	for end := time.Now().Add(d); time.Now().Before(end); {
		began := time.Now()
		confirm, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		delivery := harness.Receive(t, deliveries)
		if !confirm.Wait() {
			t.Fatal("nacked")
		}
		times = append(times, time.Since(began))
		if err := delivery.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(times)
	return times
}

// TestSlowClientsAreCut: clients that send an octet per second are closed by their limits, while another one is served.
func TestSlowClientsAreCut(t *testing.T) {
	b := harness.Start(t, harness.Options{Args: []string{"--set", "handshake_timeout=2000"}})
	a, _ := startAttack(t, b, 300, 60)
	times := roundTrips(t, b, time.Second)
	t.Logf("beside it: %v", times)
	harness.Eventually(t, 10*time.Second, func() error {
		for i := range slowKinds[:2] { // the third has the half minute that a frame may take
			if n := a.cut[i].Load(); n < 20 {
				return fmt.Errorf("%s: %d sockets of 20 were closed", slowKinds[i].name, n)
			}
		}
		return nil
	})
	if n := a.cut[2].Load(); n != 0 {
		t.Errorf("%d clients that had logged in were closed", n)
	}
	if err := a.failed.Load(); err != nil {
		t.Error(*err)
	}
	served(t, b)
}

// What the legitimate client measures, so often, beside 3,000 half-open sockets and slowWriters that send an octet per second.
const (
	slowWriters   = 500
	latencyRuns   = 5
	latencyTime   = 5 * time.Second
	latencySpare  = 2 * time.Millisecond
	latencyFactor = 2
)

// TestLatencyBesideSlowClients: they cost others little.
func TestLatencyBesideSlowClients(t *testing.T) {
	if !harness.Full() {
		t.Skip("measures for a minute")
	}
	harness.NeedFiles(t, halfOpenSockets+slowWriters+filesSpare)
	b := harness.Start(t, harness.Options{})
	roundTrips(t, b, time.Second)
	var idle, beside measure.Times
	for range latencyRuns {
		quiet := roundTrips(t, b, latencyTime)
		a, stop := startAttack(t, b, halfOpenSockets, slowWriters)
		attacked := roundTrips(t, b, latencyTime)
		stop()
		if err := a.failed.Load(); err != nil {
			t.Fatal(*err)
		}
		t.Logf("idle: %v; beside slow clients: %v", quiet, attacked)
		idle, beside = append(idle, quiet.Quantile(0.99)), append(beside, attacked.Quantile(0.99))
	}
	slices.Sort(idle)
	slices.Sort(beside)
	before, got := idle.Quantile(0.5), beside.Quantile(0.5)
	most := max(latencyFactor*before, before+latencySpare)
	t.Logf("p99, median of %d: %v idle, %v beside %d half-open sockets and %d slow writers, at most %v", latencyRuns, before, got, halfOpenSockets, slowWriters, most)
	if got > most {
		t.Errorf("p99 is %v beside slow clients, %v without; at most %v is allowed", got, before, most)
	}
}

package conformance

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// This file holds what users have reported about messages that die: of their time, of rejections, of failures, of a full queue.

// transient is a queue that lives on one node without a log, beside harness.Classic and harness.Quorum.
const transient = "transient"

// mortal is a case of this file on queues of one type.
type mortal struct {
	*pair
	kind string
}

// declare makes a queue of the case's type. Its name is its own.
func (m *mortal) declare(t *testing.T, name string, args amqp.Table) string {
	t.Helper()
	name = fmt.Sprintf("%s-%s", name, t.Name())
	if m.kind == transient {
		if _, err := m.ch.QueueDeclare(name, false, false, false, false, args); err != nil {
			t.Fatal(err)
		}
		return name
	}
	typed := amqp.Table{amqp.QueueTypeArg: m.kind}
	for k, v := range args {
		typed[k] = v
	}
	if _, err := m.ch.QueueDeclare(name, true, false, false, false, typed); err != nil {
		t.Fatal(err)
	}
	return name
}

// to are arguments that send dead letters to a queue, beside others.
func to(t *testing.T, queue string, args amqp.Table) amqp.Table {
	all := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": fmt.Sprintf("%s-%s", queue, t.Name())}
	for k, v := range args {
		all[k] = v
	}
	return all
}

// send publishes one message, confirmed.
func (m *mortal) send(t *testing.T, queue string, p amqp.Publishing) {
	t.Helper()
	p.DeliveryMode = amqp.Persistent
	c, err := m.ch.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, true, false, p)
	if err != nil {
		t.Fatal(err)
	}
	if c == nil || !c.Wait() {
		t.Fatalf("%s takes no message", queue)
	}
}

// arrives gets the next message of a queue, which comes within some seconds.
func (m *mortal) arrives(t *testing.T, queue string) amqp.Delivery {
	t.Helper()
	var d amqp.Delivery
	harness.Eventually(t, eventTimeout, func() error {
		got, ok, err := m.ch.Get(queue, false)
		if err != nil {
			t.Fatal(err)
		}
		if d = got; !ok {
			return fmt.Errorf("no message in %s", queue)
		}
		return nil
	})
	return d
}

func (m *mortal) acked(t *testing.T, queue string) amqp.Delivery {
	t.Helper()
	d := m.arrives(t, queue)
	if err := d.Ack(false); err != nil {
		t.Fatal(err)
	}
	return d
}

// Reasons of dead letters that wait.
const (
	noTarget   = "no queue takes them: the dead-letter exchange is missing or has no binding for them"
	targetFull = "a target is full"
)

// waiting waits until so many dead letters wait in a queue, for a reason, and none of its messages is shown as ready.
func (m *mortal) waiting(t *testing.T, queue string, dead int, reason string) {
	t.Helper()
	harness.Eventually(t, eventTimeout, func() error {
		var q struct {
			Ready  int    `json:"messages"`
			Dead   int    `json:"messages_dlx"`
			Reason string `json:"dlx_pending_reason"`
		}
		m.broker.Get(t, harness.Path("queues", "/", queue), &q)
		if q.Ready != 0 || q.Dead != dead || q.Reason != reason {
			return fmt.Errorf("%s has %d messages and %d dead letters (%q), want 0 and %d (%q)", queue, q.Ready, q.Dead, q.Reason, dead, reason)
		}
		return nil
	})
}

// holds waits until so many messages are ready.
func (m *mortal) holds(t *testing.T, queue string, want int) {
	t.Helper()
	harness.Eventually(t, eventTimeout, func() error {
		q, err := m.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if q.Messages != want {
			return errCount{q.Messages, want}
		}
		return nil
	})
}

// deaths shows x-death as "queue reason count", the newest first.
func deaths(d amqp.Delivery) (list []string) {
	entries, _ := d.Headers["x-death"].([]any)
	for _, e := range entries {
		x, _ := e.(amqp.Table)
		list = append(list, fmt.Sprintf("%v %v %v", x["queue"], x["reason"], x["count"]))
	}
	return list
}

// number returns a header that is a number, -1 if it is not there.
func number(d amqp.Delivery, header string) int64 {
	if n, ok := d.Headers[header].(int64); ok {
		return n
	}
	return -1
}

// settled wants no error of an acknowledgement, rejection or return.
func settled(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var deathCases = []struct {
	name string
	test func(*testing.T, *mortal)
}{
	{"cycle with rejections", rejectionCycle},
	{"x-death of a client", clientsDeaths},
	{"expiration of a letter", letterExpiration},
	{"no consumer and no target", laterTarget},
	{"short behind long", shortBehindLong},
	{"delivery limit", deliveryLimit},
	{"nack and reject", nackAndReject},
	{"every return counts", everyReturnCounts},
	{"order after a lost connection", failedGroup},
	{"full queue refuses", exactlyFull},
	{"full target", fullTarget},
}

// TestDeaths: the cases on queues of every type, all at once on one broker.
func TestDeaths(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	for _, kind := range []string{harness.Quorum, harness.Classic, transient} {
		for _, c := range deathCases {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				m := &mortal{newPair(t, b), kind}
				settled(t, m.ch.Confirm(false))
				c.test(t, m)
			})
		}
	}
}

// rejectionCycle (K01): a message that is rejected into a queue of retries and expires back goes round for ever, and its deaths are counted in two entries.
func rejectionCycle(t *testing.T, m *mortal) {
	main := m.declare(t, "main", to(t, "wait", nil))
	wait := m.declare(t, "wait", to(t, "main", amqp.Table{"x-message-ttl": 50}))
	m.send(t, main, amqp.Publishing{Body: []byte("x")})
	for range 5 {
		settled(t, m.arrives(t, main).Reject(false))
	}
	d := m.acked(t, main)
	if got, want := deaths(d), []string{wait + " expired 5", main + " rejected 5"}; !slices.Equal(got, want) {
		t.Errorf("x-death is %v, want %v", got, want)
	}
	for header, want := range map[string]string{
		"x-first-death-queue": main, "x-first-death-reason": "rejected", "x-last-death-queue": wait, "x-last-death-reason": "expired",
	} {
		if d.Headers[header] != want {
			t.Errorf("%s is %v, want %s", header, d.Headers[header], want)
		}
	}
}

// clientsDeaths (K02): what a client publishes again, headers and all, is a new message.
func clientsDeaths(t *testing.T, m *mortal) {
	exchange := "again-" + t.Name()
	settled(t, m.ch.ExchangeDeclare(exchange, "direct", true, false, false, false, nil))
	work := m.declare(t, "work", nil)
	delay := m.declare(t, "delay", amqp.Table{"x-message-ttl": 100, "x-expires": 60_000, "x-dead-letter-exchange": exchange})
	settled(t, m.ch.QueueBind(work, delay, exchange, false, nil))
	var headers amqp.Table
	for range 4 {
		sent := time.Now()
		m.send(t, delay, amqp.Publishing{Headers: headers, Body: []byte("x")})
		d := m.acked(t, work)
		if took := time.Since(sent); took < 100*time.Millisecond {
			t.Errorf("arrived after %v", took)
		}
		if got, want := deaths(d), []string{delay + " expired 1"}; !slices.Equal(got, want) {
			t.Errorf("x-death is %v, want %v", got, want)
		}
		headers = d.Headers
	}
}

// letterExpiration (K03): a dead letter loses its expiration, and the next queue's time to live begins when it arrives.
func letterExpiration(t *testing.T, m *mortal) {
	third := m.declare(t, "third", nil)
	m.declare(t, "second", to(t, "third", amqp.Table{"x-message-ttl": 400}))
	first := m.declare(t, "first", to(t, "second", nil))
	sent := time.Now()
	m.send(t, first, amqp.Publishing{Expiration: "200", Headers: amqp.Table{"mine": int32(7)}, Body: []byte("x")})
	d := m.arrives(t, third)
	if took := time.Since(sent); took < 600*time.Millisecond {
		t.Errorf("arrived after %v, before both times were over", took)
	}
	if d.Expiration != "" || d.Headers["mine"] != int32(7) {
		t.Errorf("expiration %q, headers %v", d.Expiration, d.Headers)
	}
	entries, _ := d.Headers["x-death"].([]any)
	if len(entries) != 2 {
		t.Fatalf("x-death is %v", deaths(d))
	}
	if e, _ := entries[1].(amqp.Table); e["original-expiration"] != "200" {
		t.Errorf("the death in the first queue is %v", e)
	}
	settled(t, d.Nack(false, true))
	time.Sleep(300 * time.Millisecond) // longer than its expiration was
	m.acked(t, third)
}

// laterTarget (K04): messages expire without a consumer; a target that is not there yet is waited for.
func laterTarget(t *testing.T, m *mortal) {
	const many = 200
	strict := amqp.Table{"x-message-ttl": 100, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
	if m.kind != harness.Quorum {
		delete(strict, "x-dead-letter-strategy")
	}
	source := m.declare(t, "source", to(t, "later", strict))
	var bodies []string
	for i := range many {
		bodies = append(bodies, strconv.Itoa(i))
	}
	m.publish(t, source, bodies...)
	m.waiting(t, source, many, noTarget)
	later := m.declare(t, "later", nil)
	m.holds(t, later, many)
	m.waiting(t, source, 0, "")
	m.publish(t, source, bodies...)
	m.holds(t, later, 2*many)
	for range 2 {
		for i := range many {
			if d := m.acked(t, later); string(d.Body) != strconv.Itoa(i) {
				t.Fatalf("message %s arrives in place of %d", d.Body, i)
			}
		}
	}
}

// shortBehindLong (K05): a message expires wherever it stands in its queue.
func shortBehindLong(t *testing.T, m *mortal) {
	dead := m.declare(t, "dead", nil)
	q := m.declare(t, "q", to(t, "dead", nil))
	for _, e := range []string{"60000", "200", "600"} {
		m.send(t, q, amqp.Publishing{Expiration: e, Body: []byte(e)})
	}
	for _, e := range []string{"200", "600"} {
		if d := m.acked(t, dead); string(d.Body) != e {
			t.Errorf("%s died, want %s", d.Body, e)
		}
	}
	m.holds(t, q, 1)
}

// deliveryLimit (K06): the failure beyond the limit is the message's death, at once.
func deliveryLimit(t *testing.T, m *mortal) {
	dead := m.declare(t, "dead", nil)
	q := m.declare(t, "q", to(t, "dead", amqp.Table{"x-delivery-limit": 2}))
	m.send(t, q, amqp.Publishing{Body: []byte("x")})
	for i := range 3 {
		d := m.arrives(t, q)
		want := int64(i)
		if i == 0 {
			want = -1
		}
		if d.Redelivered != (i > 0) || number(d, "x-delivery-count") != want {
			t.Errorf("delivery %d: redelivered %t, headers %v", i+1, d.Redelivered, d.Headers)
		}
		settled(t, d.Reject(true))
	}
	if d := m.acked(t, dead); !slices.Equal(deaths(d), []string{q + " delivery_limit 1"}) {
		t.Errorf("x-death is %v", deaths(d))
	}
}

// nackAndReject (K07): who returns a message with basic.nack did not fail.
func nackAndReject(t *testing.T, m *mortal) {
	dead := m.declare(t, "dead", nil)
	q := m.declare(t, "q", to(t, "dead", amqp.Table{"x-delivery-limit": 2}))
	m.send(t, q, amqp.Publishing{Body: []byte("x")})
	for i := range 6 {
		d := m.arrives(t, q)
		acquired := int64(i)
		if i == 0 || m.kind != harness.Quorum { // only clients of quorum queues look at it
			acquired = -1
		}
		if number(d, "x-acquired-count") != acquired || number(d, "x-delivery-count") != -1 {
			t.Errorf("delivery %d has headers %v", i+1, d.Headers)
		}
		settled(t, d.Nack(false, true))
	}
	m.publish(t, q, "y", "z")
	flag := ""
	for range 4 {
		settled(t, get(t, m.ch, q, "x*", "y"+flag, "z"+flag)[2].Nack(true, true))
		m.holds(t, q, 3)
		flag = "*"
	}
	for range 3 {
		d := m.arrives(t, q)
		if string(d.Body) != "x" {
			t.Fatalf("%s comes in place of x", d.Body)
		}
		settled(t, d.Reject(true))
	}
	if d := m.acked(t, dead); string(d.Body) != "x" || !slices.Equal(deaths(d), []string{q + " delivery_limit 1"}) {
		t.Errorf("%s died: %v", d.Body, deaths(d))
	}
	m.holds(t, q, 2)
}

// failedGroup (K08): what a lost connection held returns to its places as failed; who asks again gets the first one, however often.
func failedGroup(t *testing.T, m *mortal) {
	q := m.declare(t, "q", nil)
	m.publish(t, q, "1", "2", "3", "4", "5", "6", "7", "8")
	conn, socket := m.broken(t)
	ch := harness.Channel(t, conn)
	settled(t, ch.Qos(5, 0, false))
	receive(t, consume(t, ch, q, "", false), "1", "2", "3", "4", "5")
	settled(t, socket.Close())
	m.holds(t, q, 8)
	for range 3 {
		settled(t, get(t, m.ch, q, "1*")[0].Nack(false, true))
		m.holds(t, q, 8)
	}
	for i, d := range get(t, m.ch, q, "1*", "2*", "3*", "4*", "5*", "6", "7", "8") {
		want := int64(1)
		if i >= 5 {
			want = -1
		}
		if n := number(d, "x-delivery-count"); n != want {
			t.Errorf("message %s has x-delivery-count %d, want %d", d.Body, n, want)
		}
	}
}

// everyReturnCounts (K07): a queue may be told, by argument or by policy, that giving back is a failure, too.
func everyReturnCounts(t *testing.T, m *mortal) {
	dead := m.declare(t, "dead", nil)
	limited := to(t, "dead", amqp.Table{"x-delivery-limit": 2})
	byPolicy := m.declare(t, "policy", limited)
	limited["x-delivery-limit-counts"] = "all"
	byArgument := m.declare(t, "argument", limited)
	m.policy(t, byPolicy, map[string]any{"delivery-limit-counts": "all", "max-length": 3})
	// That the queue follows the policy is seen by its length; the first one dies of that.
	m.publish(t, byPolicy, "too many", "x", "y", "z")
	m.holds(t, byPolicy, 3)
	if d := m.acked(t, dead); string(d.Body) != "too many" {
		t.Fatalf("%s died of the length", d.Body)
	}
	m.publish(t, byArgument, "x", "y", "z")
	for _, q := range []string{byPolicy, byArgument} {
		for i, flag := range []string{"", "*", "*"} {
			three := get(t, m.ch, q, "x"+flag, "y"+flag, "z"+flag)
			want := int64(i)
			if i == 0 {
				want = -1
			}
			for _, d := range three {
				if number(d, "x-delivery-count") != want {
					t.Errorf("delivery %d of %s has headers %v", i+1, d.Body, d.Headers)
				}
			}
			settled(t, three[2].Nack(true, true))
			if i < 2 {
				m.holds(t, q, 3)
			}
		}
		for _, body := range []string{"x", "y", "z"} {
			if d := m.acked(t, dead); string(d.Body) != body || !slices.Equal(deaths(d), []string{q + " delivery_limit 1"}) {
				t.Errorf("%s died: %v, want %s", d.Body, deaths(d), body)
			}
		}
		m.holds(t, q, 0)
	}
}

// exactlyFull (K10): a queue with a limit that refuses publishes takes exactly so many, however they come, and counts what it refused.
func exactlyFull(t *testing.T, m *mortal) {
	q := m.declare(t, "q", amqp.Table{"x-max-length": 5, "x-overflow": "reject-publish"})
	conn := m.broker.Connect(t)
	burst := func(channels, each int) (acks int) {
		t.Helper()
		var waits []*amqp.DeferredConfirmation
		for range channels {
			ch := harness.Channel(t, conn)
			settled(t, ch.Confirm(false))
			for range each {
				c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", q, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("x")})
				settled(t, err)
				waits = append(waits, c)
			}
		}
		for _, c := range waits {
			if c.Wait() {
				acks++
			}
		}
		return acks
	}
	for _, b := range []struct{ channels, each, taken, holds int }{{1, 20, 5, 5}, {4, 5, 0, 5}} {
		if n := burst(b.channels, b.each); n != b.taken {
			t.Errorf("%d publishes on each of %d channels: %d are taken, want %d", b.each, b.channels, n, b.taken)
		}
		m.holds(t, q, b.holds)
	}
	m.acked(t, q)
	m.acked(t, q)
	if n := burst(1, 3); n != 2 {
		t.Errorf("%d of 3 are taken where 2 have room", n)
	}
	m.holds(t, q, 5)
	m.counted(t, q, "rejected", 15+20+1)
}

// fullTarget (K11): a full target takes what has room; the rest waits, and arrives once and in order as room is made.
func fullTarget(t *testing.T, m *mortal) {
	const many, room = 100, 10
	target := m.declare(t, "target", amqp.Table{"x-max-length": room, "x-overflow": "reject-publish"})
	source := m.declare(t, "source", to(t, "target", nil))
	var bodies []string
	for i := range many {
		bodies = append(bodies, strconv.Itoa(i))
	}
	m.publish(t, source, bodies...)
	last := get(t, m.ch, source, bodies...)[many-1]
	settled(t, last.Nack(true, false))
	m.holds(t, target, room)
	m.waiting(t, source, many-room, targetFull)
	for i := range many {
		if d := m.acked(t, target); string(d.Body) != strconv.Itoa(i) {
			t.Fatalf("message %s arrives in place of %d", d.Body, i)
		}
		if d, err := m.ch.QueueDeclarePassive(target, true, false, false, false, nil); err != nil || d.Messages > room {
			t.Fatalf("the target has %d messages (%v), its limit is %d", d.Messages, err, room)
		}
	}
	m.waiting(t, source, 0, "")
	m.holds(t, target, 0)
}

// parkingQueue is where messages go that failed too often in a queue without a dead-letter exchange.
const parkingQueue = "amq.dead"

// TestPoisonIsParked (K07): a message that fails too often is never dropped. Without a dead-letter exchange it goes to the parking queue of its virtual host, which is made for it, and which has no limit.
func TestPoisonIsParked(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	for i, kind := range []string{harness.Quorum, harness.Classic, transient} {
		t.Run(kind, func(t *testing.T) {
			m := &mortal{newPair(t, b), kind}
			settled(t, m.ch.Confirm(false))
			for j, counts := range []string{"failures", "all"} {
				q := m.declare(t, counts, amqp.Table{"x-delivery-limit": 1, "x-delivery-limit-counts": counts})
				m.send(t, q, amqp.Publishing{Headers: amqp.Table{"mine": "kept"}, Body: []byte(kind + counts)})
				for range 2 {
					if d := m.arrives(t, q); counts == "all" {
						settled(t, d.Nack(false, true))
					} else {
						settled(t, d.Reject(true))
					}
				}
				parked := 2*i + j + 1
				harness.Eventually(t, eventTimeout, func() error {
					n, err := b.TryCount(parkingQueue)
					if err == nil && n != parked {
						err = errCount{n, parked}
					}
					return err
				})
				m.waiting(t, q, 0, "")
			}
		})
	}
	m := &mortal{newPair(t, b), harness.Quorum}
	for range 25 { // more often than any limit
		settled(t, m.arrives(t, parkingQueue).Reject(true))
	}
	for _, kind := range []string{harness.Quorum, harness.Classic, transient} {
		for _, counts := range []string{"failures", "all"} {
			d := m.acked(t, parkingQueue)
			if string(d.Body) != kind+counts || len(deaths(d)) != 1 || d.Headers["x-last-death-reason"] != "delivery_limit" || d.Headers["mine"] != "kept" {
				t.Errorf("parked is %s with %v, want %s%s", d.Body, d.Headers, kind, counts)
			}
		}
	}
	m.holds(t, parkingQueue, 0)
}

// broken opens a connection whose socket the test can close without a word.
func (m *mortal) broken(t *testing.T) (*amqp.Connection, net.Conn) {
	t.Helper()
	socket := make(chan net.Conn, 1)
	dial := amqp.DefaultDial(eventTimeout)
	conn, err := amqp.DialConfig(m.broker.AMQPURL(), amqp.Config{Dial: func(network, address string) (c net.Conn, err error) {
		if c, err = dial(network, address); err == nil {
			socket <- c
		}
		return c, err
	}})
	settled(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn, <-socket
}

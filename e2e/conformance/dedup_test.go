package conformance

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// identified is a message with a deduplication id of any type.
func identified(id any, body string) amqp.Publishing {
	return amqp.Publishing{Headers: amqp.Table{"x-deduplication-header": id}, Body: []byte(body)}
}

// duplicates wants that a queue has dropped so many duplicates by now.
func (m *mortal) duplicates(t *testing.T, queue string, want int) {
	t.Helper()
	m.counted(t, queue, "duplicates", want)
}

// TestDeduplication (K15): a queue takes no message whose id another one has that is in the queue. Duplicates are confirmed and counted, whatever restarts; an acknowledgement frees the id.
func TestDeduplication(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	m := &mortal{newPair(t, b), ""}
	settled(t, m.ch.Confirm(false))
	queues := map[string]string{}
	for _, m.kind = range []string{harness.Quorum, harness.Classic, transient} {
		for name, on := range map[string]any{"bool": true, "string": "true", "number": 1} {
			q := m.declare(t, name+m.kind, amqp.Table{"x-message-deduplication": on})
			queues[q] = m.kind
			for i := range 4 {
				m.send(t, q, identified("k1", fmt.Sprint("k1 ", i)))
			}
			m.send(t, q, identified("k2", "k2"))
			m.send(t, q, identified([]byte("k2"), "k2 again"))
			m.send(t, q, identified(int32(7), "7"))
			m.send(t, q, identified(int64(7), "7 again"))
			m.send(t, q, identified("7", "7 as text"))
			m.send(t, q, identified(nil, "no id"))
			m.send(t, q, identified(nil, "no id"))
			m.holds(t, q, 6)
			m.duplicates(t, q, 5)
		}
	}
	off := m.declare(t, "off", amqp.Table{"x-message-deduplication": false})
	m.send(t, off, identified("k1", "first"))
	m.send(t, off, identified("k1", "second"))
	m.holds(t, off, 2)
	b.Kill9()
	b.Launch(t)
	b.AwaitHTTP(t)
	m = &mortal{newPair(t, b), ""}
	settled(t, m.ch.Confirm(false))
	for q, kind := range queues {
		if kind == transient {
			continue
		}
		m.send(t, q, identified("k1", "k1 after a restart"))
		m.holds(t, q, 6)
		m.duplicates(t, q, 6)
		d := get(t, m.ch, q, "k1 0")[0]
		m.send(t, q, identified("k1", "k1 while it is out"))
		settled(t, d.Reject(true))
		m.send(t, q, identified("k1", "k1 while it is back"))
		settled(t, get(t, m.ch, q, "k1 0*")[0].Ack(false))
		m.send(t, q, identified("k1", "k1 after the acknowledgement"))
		m.holds(t, q, 6)
		m.duplicates(t, q, 8)
	}
}

// TestDeduplicationRefusedRetry (K15): an id whose publish was refused may be tried again at once.
func TestDeduplicationRefusedRetry(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	for _, kind := range []string{harness.Quorum, transient} {
		m := &mortal{newPair(t, b), kind}
		settled(t, m.ch.Confirm(false))
		for name, ttl := range map[string]amqp.Table{"queued": {}, "window": {"x-cache-ttl": 60000}} {
			ttl["x-message-deduplication"], ttl["x-max-length"], ttl["x-overflow"] = true, 1, "reject-publish"
			q := m.declare(t, name+kind, ttl)
			m.send(t, q, identified("k1", "one"))
			c, err := m.ch.PublishWithDeferredConfirmWithContext(t.Context(), "", q, false, false, identified("k2", "refused"))
			settled(t, err)
			if c.Wait() {
				t.Fatalf("%s: a full queue takes a message", q)
			}
			m.send(t, q, identified("k1", "a duplicate, which a full queue confirms"))
			settled(t, get(t, m.ch, q, "one")[0].Ack(false))
			m.send(t, q, identified("k2", "two"))
			get(t, m.ch, q, "two")
		}
	}
}

// TestDeduplicationWindow: with x-cache-ttl an id is known for that long from the first message on, whatever becomes of that, of the broker, and however many duplicates come.
func TestDeduplicationWindow(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	m := &mortal{newPair(t, b), harness.Quorum}
	settled(t, m.ch.Confirm(false))
	sized := m.declare(t, "sized", amqp.Table{"x-message-deduplication": true, "x-cache-ttl": 3600_000, "x-cache-size": 2})
	for _, id := range []string{"a", "b", "a", "c", "a"} { // the last one is beyond the size
		m.send(t, sized, identified(id, id))
	}
	m.holds(t, sized, 4)
	for window := 3 * time.Second; !windowOutlivesKill(t, b, window); window *= 3 {
		if window > time.Minute {
			t.Fatal("no restart is shorter than a window of a minute")
		}
	}
}

// windowOutlivesKill kills the broker within a window. False: it was away for longer than that, so that nothing is known.
func windowOutlivesKill(t *testing.T, b *harness.Broker, window time.Duration) bool {
	t.Helper()
	m := &mortal{newPair(t, b), harness.Quorum}
	settled(t, m.ch.Confirm(false))
	args := amqp.Table{"x-message-deduplication": true, "x-cache-ttl": window.Milliseconds(), "x-cache-size": 2}
	q := m.declare(t, "window-"+window.String(), args)
	first := time.Now()
	m.send(t, q, identified("k1", "first"))
	settled(t, get(t, m.ch, q, "first")[0].Ack(false))
	_, err := m.ch.QueuePurge(q, false)
	settled(t, err)
	m.send(t, q, identified("k1", "after the purge"))
	b.Kill9()
	b.Launch(t)
	b.AwaitHTTP(t)
	m = &mortal{newPair(t, b), harness.Quorum}
	settled(t, m.ch.Confirm(false))
	tries := 0
	for m.count(t, q) == 0 {
		tries++
		m.send(t, q, identified("k1", "later"))
		time.Sleep(20 * time.Millisecond)
		if tries > 1 && time.Since(first) > 2*window-window/4 {
			t.Fatal("the window is longer than it is")
		}
	}
	if took := time.Since(first); took < window-100*time.Millisecond {
		t.Errorf("the window was closed after %v", took)
	}
	if tries < 2 {
		return false
	}
	m.send(t, q, identified("k1", "a duplicate of that"))
	m.holds(t, q, 1)
	m.duplicates(t, q, tries+1)
	return true
}

// TestDeduplicationPolicy: a policy turns deduplication on for what comes, and off.
func TestDeduplicationPolicy(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	m := &mortal{newPair(t, b), harness.Classic}
	settled(t, m.ch.Confirm(false))
	q := m.declare(t, "policy", nil)
	m.send(t, q, identified("k1", "before"))
	policy := map[string]any{"pattern": "^policy-", "definition": map[string]any{"x-message-deduplication": true}}
	if a := b.API(t, http.MethodPut, harness.Path("policies", "/", "dedup"), policy); a.Status != http.StatusCreated {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	harness.Eventually(t, eventTimeout, func() error { // until the queue has it
		n := m.count(t, q)
		m.send(t, q, identified("k1", "under the policy"))
		if m.count(t, q) != n {
			return fmt.Errorf("%d messages", n)
		}
		return nil
	})
	n := m.count(t, q)
	if n < 2 {
		t.Errorf("%d messages: what was there before counts", n)
	}
	if a := b.API(t, http.MethodDelete, harness.Path("policies", "/", "dedup"), nil); a.Status != http.StatusNoContent {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	harness.Eventually(t, eventTimeout, func() error {
		m.send(t, q, identified("k1", "without it"))
		if m.count(t, q) == n {
			return fmt.Errorf("still %d messages", n)
		}
		return nil
	})
}

// TestDeduplicationChain: a message that fails goes through a retry queue back to where it was, whose window it does not have to pass again. While it is away another one may take its place in the window's
// absence only.
func TestDeduplicationChain(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	m := &mortal{newPair(t, b), harness.Quorum}
	settled(t, m.ch.Confirm(false))
	for name, ttl := range map[string]any{"queued": nil, "window": 60000} {
		args := amqp.Table{"x-message-deduplication": true}
		if ttl != nil {
			args["x-cache-ttl"] = ttl
		}
		main := m.declare(t, name, to(t, name+"-retry", args))
		m.declare(t, name+"-retry", to(t, name, amqp.Table{"x-message-ttl": 50}))
		m.send(t, main, identified("k1", "work"))
		for range 3 {
			settled(t, m.arrives(t, main).Reject(false))
		}
		if d := m.arrives(t, main); string(d.Body) != "work" {
			t.Errorf("%s: got %q", name, d.Body)
		}
		m.send(t, main, identified("k1", "duplicate"))
		m.holds(t, main, 0)
	}
}

func (m *mortal) count(t *testing.T, queue string) int {
	t.Helper()
	return m.broker.Count(t, queue)
}

// TestDeduplicationExchange: an x-message-deduplication exchange leads one message of each id on to all that are bound, whatever their keys, within its window, which a restart does not end; what has no id
// passes.
func TestDeduplicationExchange(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	const window = 2 * time.Second
	b := harness.Start(t, harness.Options{})
	m := &mortal{newPair(t, b), harness.Quorum}
	settled(t, m.ch.Confirm(false))
	const kind = "x-message-deduplication"
	closes(t, b.Channel(t).ExchangeDeclare("bad", kind, true, false, false, false, nil), amqp.PreconditionFailed,
		"PRECONDITION_FAILED - Missing or invalid argument, 'x-cache-size' must be an integer greater than 0")
	settled(t, m.ch.ExchangeDeclare("long", kind, true, false, false, false, amqp.Table{"x-cache-size": 100}))
	settled(t, m.ch.ExchangeDeclare("short", kind, true, false, false, false, amqp.Table{"x-cache-size": "100", "x-cache-ttl": window.Milliseconds(), "x-cache-persistence": "disk"}))
	one, two, brief := m.declare(t, "one", nil), m.declare(t, "two", nil), m.declare(t, "brief", nil)
	settled(t, m.ch.QueueBind(one, "key", "long", false, nil))
	settled(t, m.ch.QueueBind(two, "another", "long", false, nil))
	settled(t, m.ch.QueueBind(brief, "", "short", false, nil))
	for range 3 {
		m.sendTo(t, "long", identified("k1", "identified"))
		m.sendTo(t, "long", amqp.Publishing{Body: []byte("not identified")})
	}
	m.holds(t, one, 4)
	m.holds(t, two, 4)
	m.mandatory(t, "long", 0)
	settled(t, m.ch.ExchangeDeclare("unbound", kind, true, false, false, false, amqp.Table{"x-cache-size": 1}))
	m.mandatory(t, "unbound", 1)
	first := time.Now()
	m.sendTo(t, "short", identified(7, "brief"))
	tries := 1
	for ; m.count(t, brief) < 2; tries++ {
		m.sendTo(t, "short", identified(int64(7), "brief"))
		time.Sleep(20 * time.Millisecond)
		if time.Since(first) > 5*window {
			t.Fatal("the window does not end")
		}
	}
	if took := time.Since(first); took < window-100*time.Millisecond || tries < 3 {
		t.Errorf("the second of %d came after %v, the window is %v", tries, took, window)
	}
	b.Kill9()
	b.Launch(t)
	m = &mortal{newPair(t, b), harness.Quorum}
	settled(t, m.ch.Confirm(false))
	m.sendTo(t, "long", identified("k1", "after a restart"))
	m.sendTo(t, "long", identified("k2", "another"))
	m.holds(t, one, 5)
	m.holds(t, two, 5)
}

// sendTo publishes to an exchange, confirmed.
func (m *mortal) sendTo(t *testing.T, exchange string, p amqp.Publishing) {
	t.Helper()
	p.DeliveryMode = amqp.Persistent
	c, err := m.ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, "", false, false, p)
	settled(t, err)
	if !c.Wait() {
		t.Fatalf("%s takes no message", exchange)
	}
}

// mandatory publishes a duplicate as mandatory: it comes back so many times, and is confirmed.
func (m *mortal) mandatory(t *testing.T, exchange string, want int) {
	t.Helper()
	ch := m.broker.Channel(t)
	settled(t, ch.Confirm(false))
	returns := ch.NotifyReturn(make(chan amqp.Return, 10))
	p := identified("k1", "mandatory")
	c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, "", true, false, p)
	settled(t, err)
	if !c.Wait() || len(returns) != want {
		t.Errorf("%s: %d returns, want %d", exchange, len(returns), want)
	}
}

// TestDeduplicationOfDelayed (K15): a window begins when its exchange takes the first message and is not made longer by a delay: behind a delayed exchange when the message comes from there, of an exchange that
// does both when it was published.
func TestDeduplicationOfDelayed(t *testing.T) {
	harness.NeedProcess(t)
	t.Parallel()
	const window, wait = 3 * time.Second, 2 * time.Second
	b := harness.Start(t, harness.Options{})
	m := &mortal{newPair(t, b), harness.Quorum}
	settled(t, m.ch.Confirm(false))
	cache := amqp.Table{"x-cache-size": 100, "x-cache-ttl": window.Milliseconds()}
	settled(t, m.ch.ExchangeDeclare("once", "x-message-deduplication", true, false, false, false, cache))
	settled(t, m.ch.ExchangeDeclare("later", "x-delayed-message", true, false, false, false, amqp.Table{"x-delayed-type": "fanout"}))
	cache["x-delayed-type"] = "x-message-deduplication"
	settled(t, m.ch.ExchangeDeclare("both", "x-delayed-message", true, false, false, false, cache))
	chained, both := m.declare(t, "chained", nil), m.declare(t, "both", nil)
	settled(t, m.ch.ExchangeBind("once", "", "later", false, nil))
	settled(t, m.ch.QueueBind(chained, "", "once", false, nil))
	settled(t, m.ch.QueueBind(both, "", "both", false, nil))
	for _, c := range []struct {
		delayed, direct, queue string
		from                   time.Duration // when the window begins
	}{{"later", "once", chained, wait}, {"both", "both", both, 0}} {
		began := time.Now()
		p := identified("k1", "delayed")
		p.Headers["x-delay"] = int32(wait.Milliseconds())
		m.sendTo(t, c.delayed, p)
		if c.from > 0 {
			m.holds(t, c.queue, 1)
		}
		for m.count(t, c.queue) < 2 {
			m.sendTo(t, c.direct, identified("k1", "direct"))
			time.Sleep(20 * time.Millisecond)
			if time.Since(began) > eventTimeout {
				t.Fatalf("%s: the window does not end", c.delayed)
			}
		}
		took := time.Since(began)
		if least, most := c.from+window-100*time.Millisecond, c.from+window+wait-200*time.Millisecond; took < least || took > most {
			t.Errorf("%s: the second one came after %v, want %v to %v", c.delayed, took, least, most)
		}
		get(t, m.ch, c.queue, "delayed", "direct")
	}
}

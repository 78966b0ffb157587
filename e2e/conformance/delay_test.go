package conformance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// lateMillis is how much later than it should a message may come: 100 ms for the broker, the rest for a machine that is busy with other tests.
const lateMillis = 250

// TestDelays holds what becomes of messages that are to wait, in an x-delayed-message exchange or any queue.
func TestDelays(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	for name, test := range map[string]func(*testing.T, *pair){
		"mixed and huge":          delaysMixedAndHuge,
		"mandatory and metrics":   delayedMandatory,
		"any queue":               delaysInAnyQueue,
		"refused":                 delayRefused,
		"copies and alternates":   delayedCopies,
		"exchange to exchange":    delayedBetweenExchanges,
		"nobody sees it":          relayIsHidden,
		"with transactions":       delayedTransaction,
		"what is left of x-delay": delayIsNegated,
	} {
		t.Run(name, func(t *testing.T) { test(t, newPair(t, b)) })
	}
}

// delayed makes a delayed exchange that routes as another type, with a queue bound by key.
func (p *pair) delayed(t *testing.T, name, routes, key string) (queue string) {
	t.Helper()
	p.exchange(t, name, "x-delayed-message", amqp.Table{"x-delayed-type": routes})
	q, err := p.ch.QueueDeclare(name+"-q", true, false, false, false, nil)
	if err == nil {
		err = p.ch.QueueBind(q.Name, key, name, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return q.Name
}

// later publishes a message that is not mandatory, and waits for its confirm.
func (p *pair) later(t *testing.T, exchange, key string, m amqp.Publishing) {
	t.Helper()
	ch := p.broker.Channel(t)
	defer ch.Close()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, key, false, false, m)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := c.WaitContext(t.Context()); err != nil || !ok {
		t.Fatalf("publish to %q: confirmed %t, %v", exchange, ok, err)
	}
}

// wrong wants what is done on a channel to close it.
func (p *pair) wrong(t *testing.T, code int, text string, do func(*amqp.Channel) error) {
	t.Helper()
	ch := p.broker.Channel(t)
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	_ = do(ch)
	select {
	case err := <-closed:
		if err == nil || err.Code != code || !strings.Contains(err.Reason, text) {
			t.Errorf("closed with %v, want %d %s", err, code, text)
		}
	case <-time.After(5 * time.Second):
		t.Errorf("it is not refused, want %d %s", code, text)
	}
}

// due is a message with when it should come.
type due struct {
	header amqp.Table
	body   string
	after  time.Duration
	at     time.Time // instead
}

// arrive publishes messages to an exchange and holds their arrival in a queue to the order and the times given.
func (p *pair) arrive(t *testing.T, exchange, key, queue string, messages []due, order string) {
	t.Helper()
	deliveries := consume(t, p.ch, queue, "", true)
	at, latest := make(map[string]time.Time), make(map[string]time.Time)
	for _, m := range messages {
		if at[m.body] = m.at; m.at.IsZero() {
			at[m.body] = time.Now().Add(m.after)
		}
		p.later(t, exchange, key, amqp.Publishing{Headers: m.header, Body: []byte(m.body)})
		if latest[m.body] = m.at; m.at.IsZero() {
			latest[m.body] = time.Now().Add(m.after) // it was taken before the confirm
		}
	}
	for _, want := range strings.Fields(order) {
		select {
		case d := <-deliveries:
			now := time.Now()
			if string(d.Body) != want {
				t.Fatalf("%s comes, want %s", d.Body, want)
			}
			if now.Before(at[want]) || now.After(latest[want].Add(lateMillis*time.Millisecond)) {
				t.Errorf("%s comes %v after it is due", want, now.Sub(at[want]))
			}
		case <-time.After(8 * time.Second):
			t.Fatalf("%s does not come", want)
		}
	}
	select {
	case d := <-deliveries:
		t.Errorf("%s comes, too", d.Body)
	case <-time.After(200 * time.Millisecond):
	}
}

// delaysMixedAndHuge (K13; what is refused is in delayRefused): messages come when they are due, in any order of delays and with integers of any width; one for next year waits and is listed.
func delaysMixedAndHuge(t *testing.T, p *pair) {
	const x, year = "e2e-delays", 31_536_000_000
	q := p.delayed(t, x, "direct", "k")
	p.arrive(t, x, "k", q, []due{
		{header: amqp.Table{"x-delay": int32(4000)}, body: "third", after: 4 * time.Second}, {header: amqp.Table{"x-delay": int64(500)}, body: "first", after: 500 * time.Millisecond}, {header: amqp.Table{"x-delay": int16(2000)}, body: "second", after: 2 * time.Second},
		{header: amqp.Table{"x-delay": int64(year)}, body: "next year", after: 0}, {header: amqp.Table{"x-delay": int32(-5)}, body: "now", after: 0}, {header: nil, body: "plain", after: 0}, {header: amqp.Table{"x-delay": "700"}, body: "text", after: 700 * time.Millisecond},
		{header: amqp.Table{"x-delay": 900.5}, body: "fraction", after: 900 * time.Millisecond},
	}, "now plain first text fraction second third")
}

// delayedMandatory (K14, with relayIsHidden and TestDelaysAreCounted): what is to wait and could be routed is confirmed and not returned; what could not is returned at once and confirmed, and not kept.
func delayedMandatory(t *testing.T, p *pair) {
	const x = "e2e-delayed-mandatory"
	q := p.delayed(t, x, "direct", "bound")
	in := func(millis int32, body string) amqp.Publishing {
		return amqp.Publishing{Headers: amqp.Table{"x-delay": millis}, Body: []byte(body)}
	}
	if p.sends(t, x, "bound", in(1000, "bound")) {
		t.Error("what is bound was returned")
	}
	start := time.Now()
	if !p.sends(t, x, "unbound", in(1000, "unbound")) {
		t.Error("what is not bound was not returned")
	}
	if took := time.Since(start); took > 500*time.Millisecond {
		t.Errorf("it was returned after %v", took)
	}
	if err := p.ch.QueueBind(q, "unbound", x, false, nil); err != nil {
		t.Fatal(err)
	}
	deliveries := consume(t, p.ch, q, "", true)
	receive(t, deliveries, "bound")
	p.later(t, x, "not yet", in(500, "bound later"))
	if err := p.ch.QueueBind(q, "not yet", x, false, nil); err != nil {
		t.Fatal(err)
	}
	receive(t, deliveries, "bound later")
}

// TestDelaysAreCounted: what waits is told, by the exchange, the queue and the metrics, and is neither unroutable nor anything else until it is due. What has nowhere to go by then is counted once.
func TestDelaysAreCounted(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	p := newPair(t, b)
	const x = "counted"
	q := p.delayed(t, x, "direct", "k")
	wants := func(what string, delayed, inExchange, inQueue int, unroutable float64) {
		t.Helper()
		harness.Eventually(t, 5*time.Second, func() error {
			var of [2]struct {
				Delayed int `json:"messages_delayed"`
			}
			b.API(t, "GET", "/api/exchanges/%2F/"+x, nil).JSON(t, &of[0])
			b.API(t, "GET", "/api/queues/%2F/"+q, nil).JSON(t, &of[1])
			var list []struct {
				Name    string
				Delayed int `json:"messages_delayed"`
			}
			b.API(t, "GET", "/api/exchanges?columns=name,messages_delayed", nil).JSON(t, &list)
			listed := -1
			for _, row := range list {
				if row.Name == x {
					listed = row.Delayed
				}
			}
			var all struct {
				Stats struct {
					Dropped  int `json:"drop_unroutable"`
					Returned int `json:"return_unroutable"`
				} `json:"message_stats"`
			}
			b.API(t, "GET", "/api/overview", nil).JSON(t, &all)
			var numbers [3]float64
			for i, name := range [...]string{"warren_messages_delayed", "warren_messages_delayed_unroutable_total", "warren_messages_delayed_lag_seconds"} {
				n, err := b.Metric(name)
				if err != nil {
					return err
				}
				numbers[i] = n
			}
			if of[0].Delayed != inExchange || listed != inExchange || of[1].Delayed != inQueue || all.Stats.Dropped+all.Stats.Returned != 0 || numbers[0] != float64(delayed) || numbers[1] != unroutable || numbers[2] > 1 {
				return fmt.Errorf("%s: the exchange has %d and %d in the list, the queue %d; %d dropped, %d returned; metrics %v", what, of[0].Delayed, listed, of[1].Delayed, all.Stats.Dropped, all.Stats.Returned, numbers)
			}
			return nil
		})
	}
	in := func(body string) amqp.Publishing {
		return amqp.Publishing{Headers: amqp.Table{"x-delay": int32(60_000)}, Body: []byte(body)}
	}
	wants("at first", 0, 0, 0, 0)
	if p.sends(t, x, "k", in("mandatory")) {
		t.Error("what is bound was returned")
	}
	wants("one waits", 1, 1, 0, 0)
	if left, err := b.Metric("warren_messages_delayed_next_seconds"); err != nil || left < 45 || left > 60 {
		t.Errorf("it is due in %v seconds (%v)", left, err)
	}
	p.later(t, "", q, in("in the queue"))
	p.later(t, x, "nowhere", in("lost"))
	wants("three wait", 3, 2, 1, 0)
	for _, of := range []string{"exchanges/%2F/" + x, "queues/%2F/" + q} {
		b.API(t, "POST", "/api/"+of+"/delayed/deliver", map[string]any{"all": true})
	}
	wants("none waits", 0, 0, 0, 1)
	deliveries := consume(t, p.ch, q, "", true)
	first, second := string(harness.Receive(t, deliveries).Body), string(harness.Receive(t, deliveries).Body) // one comes through the exchange, the other not: in any order
	if got := min(first, second) + ", " + max(first, second); got != "in the queue, mandatory" {
		t.Errorf("received %s", got)
	}
}

// delaysInAnyQueue: quorum, classic, exclusive and transient ones delay on their own, after a time and until one. What became ready later stands behind.
func delaysInAnyQueue(t *testing.T, p *pair) {
	for name, declare := range map[string]func(string) (amqp.Queue, error){
		"quorum": func(q string) (amqp.Queue, error) {
			return p.ch.QueueDeclare(q, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		},
		"classic":   func(q string) (amqp.Queue, error) { return p.ch.QueueDeclare(q, true, false, false, false, nil) },
		"exclusive": func(q string) (amqp.Queue, error) { return p.ch.QueueDeclare(q, false, false, true, false, nil) },
	} {
		q, err := declare("e2e-delay-" + name)
		if err != nil {
			t.Fatal(err)
		}
		at := time.UnixMilli(time.Now().UnixMilli() + 1500)
		p.arrive(t, "", q.Name, q.Name, []due{
			{header: amqp.Table{"x-opt-delivery-time": at.UnixMilli()}, body: "at", at: at}, {header: amqp.Table{"x-delay": int32(400)}, body: "after", after: 400 * time.Millisecond}, {header: nil, body: "plain", after: 0},
			{header: amqp.Table{"x-opt-delivery-time": at.UnixMilli() - 3_600_000}, body: "past", after: 0},
		}, "plain past after at")
	}
	q, err := p.ch.QueueDeclare("e2e-delay-order", true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	if err != nil {
		t.Fatal(err)
	}
	for _, millis := range []int32{300, 100, 200} {
		p.sends(t, "", q.Name, amqp.Publishing{Headers: amqp.Table{"x-delay": millis}, Body: fmt.Append(nil, millis)})
	}
	p.publish(t, q.Name, "plain")
	harness.Eventually(t, 5*time.Second, func() error {
		got, err := p.ch.QueueDeclarePassive(q.Name, true, false, false, false, nil)
		if err == nil && got.Messages != 4 {
			err = fmt.Errorf("%d are ready", got.Messages)
		}
		return err
	})
	receive(t, consume(t, p.ch, q.Name, "", true), "plain", "100", "200", "300")
}

// delayRefused: a header that says nothing closes the channel, wherever it is published to, and a delayed exchange must say how it routes.
func delayRefused(t *testing.T, p *pair) {
	const x = "e2e-delay-refused"
	q := p.delayed(t, x, "direct", "k")
	for _, c := range []struct {
		exchange, key string
		headers       amqp.Table
	}{
		{x, "k", amqp.Table{"x-delay": "abc"}}, {"", q, amqp.Table{"x-delay": "abc"}}, {x, "k", amqp.Table{"x-delay": true}}, {x, "k", amqp.Table{"x-opt-delivery-time": "soon"}},
	} {
		p.wrong(t, amqp.PreconditionFailed, "is no whole number", func(ch *amqp.Channel) error {
			return ch.Publish(c.exchange, c.key, false, false, amqp.Publishing{Headers: c.headers})
		})
	}
	for _, routes := range []any{nil, int32(5), "x-delayed-message"} {
		p.wrong(t, amqp.PreconditionFailed, "Invalid argument, 'x-delayed-type' must be an existing exchange type", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("e2e-delay-bad", "x-delayed-message", true, false, false, false, amqp.Table{"x-delayed-type": routes})
		})
	}
}

// delayedCopies: CC and BCC count when the message is due, and so does the alternate exchange. What has nowhere to go then is dropped, or parked if it was mandatory.
func delayedCopies(t *testing.T, p *pair) {
	const x, spare = "e2e-delayed-copies", "e2e-delayed-spare"
	q := p.delayed(t, x, "direct", "blind")
	deliveries := consume(t, p.ch, q, "", true)
	p.later(t, x, "none", amqp.Publishing{Headers: amqp.Table{"x-delay": int32(200), "CC": []any{"other"}, "BCC": []any{"blind"}}, Expiration: "60000", Body: []byte("blind")})
	d := receive(t, deliveries, "blind")[0]
	if _, has := d.Headers["BCC"]; has || d.RoutingKey != "none" || d.Exchange != x || d.Expiration != "60000" || d.Headers["x-death"] != nil {
		t.Errorf("it comes as %+v", d)
	}
	p.exchange(t, spare, "fanout", nil)
	p.exchange(t, x+"-2", "x-delayed-message", amqp.Table{"x-delayed-type": "direct", "alternate-exchange": spare})
	if err := p.ch.QueueBind(q, "", spare, false, nil); err != nil {
		t.Fatal(err)
	}
	p.later(t, x+"-2", "none", amqp.Publishing{Headers: amqp.Table{"x-delay": int32(200)}, Body: []byte("spare")})
	receive(t, deliveries, "spare")
	p.sends(t, x, "blind", amqp.Publishing{Headers: amqp.Table{"x-delay": int32(300)}, Body: []byte("mandatory")})
	p.later(t, x, "blind", amqp.Publishing{Headers: amqp.Table{"x-delay": int32(300)}, Body: []byte("not")})
	if err := p.ch.QueueUnbind(q, "blind", x, nil); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 5*time.Second, func() error {
		ch := p.broker.Channel(t)
		defer ch.Close()
		d, ok, err := ch.Get("amq.dead", true)
		switch {
		case err != nil:
			return err
		case !ok:
			return errors.New("nothing is parked")
		case string(d.Body) != "mandatory":
			t.Errorf("parked: %s", d.Body)
		}
		return nil
	})
}

// delayedBetweenExchanges: a message that comes to a delayed exchange by a binding waits there as well, and one that leads back to itself ends.
func delayedBetweenExchanges(t *testing.T, p *pair) {
	const x, front = "e2e-delayed-behind", "e2e-delayed-front"
	q := p.delayed(t, x, "fanout", "")
	p.exchange(t, front, "fanout", nil)
	for _, b := range [][2]string{{x, front}, {x, x}, {front, x}} { // to, from
		if err := p.ch.ExchangeBind(b[0], "", b[1], false, nil); err != nil {
			t.Fatal(err)
		}
	}
	p.arrive(t, front, "k", q, []due{{header: amqp.Table{"x-delay": int32(500)}, body: "later", after: 500 * time.Millisecond}, {header: nil, body: "now", after: 0}}, "now later")
}

// relayIsHidden: nothing can be done to the queue in which messages wait.
func relayIsHidden(t *testing.T, p *pair) {
	const x = "e2e-delayed-hidden"
	p.delayed(t, x, "direct", "k")
	relay := "amq.relay:" + x
	for name, use := range map[string]func(ch *amqp.Channel) error{
		"passive": func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(relay, true, false, false, false, nil)
			return err
		},
		"get":   func(ch *amqp.Channel) error { _, _, err := ch.Get(relay, true); return err },
		"bind":  func(ch *amqp.Channel) error { return ch.QueueBind(relay, "k", x, false, nil) },
		"purge": func(ch *amqp.Channel) error { _, err := ch.QueuePurge(relay, false); return err },
	} {
		t.Run(name, func(t *testing.T) { p.wrong(t, amqp.NotFound, "no queue", use) })
	}
	p.wrong(t, amqp.AccessRefused, "reserved", func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(relay, true, false, false, false, nil)
		return err
	})
}

// delayedTransaction: a message of a transaction waits from the commit on.
func delayedTransaction(t *testing.T, p *pair) {
	const x = "e2e-delayed-tx"
	q := p.delayed(t, x, "direct", "k")
	ch := p.broker.Channel(t)
	if err := ch.Tx(); err != nil {
		t.Fatal(err)
	}
	for _, to := range [][2]string{{x, "k"}, {"", q}} {
		if err := ch.Publish(to[0], to[1], false, false, amqp.Publishing{Headers: amqp.Table{"x-delay": int32(400)}, Body: []byte("m")}); err != nil {
			t.Fatal(err)
		}
	}
	deliveries := consume(t, p.ch, q, "", true)
	time.Sleep(500 * time.Millisecond)
	if err := ch.TxCommit(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	receive(t, deliveries, "m", "m")
	if took := time.Since(start); took < 350*time.Millisecond || took > 600*time.Millisecond {
		t.Errorf("they come %v after the commit", took)
	}
}

// delayIsNegated: what was delayed shows by how much, so that it is not delayed again when it is published as it came.
func delayIsNegated(t *testing.T, p *pair) {
	const x = "e2e-delay-negated"
	q := p.delayed(t, x, "direct", "k")
	deliveries := consume(t, p.ch, q, "", true)
	for i, exchange := range []string{x, ""} {
		key := []string{"k", q}[i]
		p.sends(t, exchange, key, amqp.Publishing{Headers: amqp.Table{"a": "b", "x-delay": int64(2000), "c": "d"}, MessageId: "id", Body: []byte("m")})
		d := receive(t, deliveries, "m")[0]
		if d.Headers["x-delay"] != int32(-2000) || d.Headers["a"] != "b" || d.Headers["c"] != "d" || d.MessageId != "id" {
			t.Errorf("it comes with %v", d.Headers)
		}
		start := time.Now()
		p.sends(t, exchange, key, amqp.Publishing{Headers: d.Headers, Body: []byte("again")})
		receive(t, deliveries, "again")
		if took := time.Since(start); took > 1500*time.Millisecond {
			t.Errorf("published again it comes after %v", took)
		}
	}
}

// TestScheduleByAPI lists, shows, cancels and delivers messages that are to be ready later.
func TestScheduleByAPI(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	p := newPair(t, b)
	q := p.delayed(t, "later", "fanout", "")
	for _, of := range []struct{ path, exchange, key string }{{"exchanges/%2F/later", "later", "k"}, {"queues/%2F/" + q, "", q}} {
		start := time.Now().UnixMilli()
		for i := range 5 {
			p.later(t, of.exchange, of.key, amqp.Publishing{Headers: amqp.Table{"x-delay": int64(1000 * (3600 - i))}, MessageId: fmt.Sprint(i), Body: fmt.Append(nil, "body ", i)})
		}
		var list struct {
			Total int
			Next  string
			Items []struct {
				ID, Exchange string
				RoutingKey   string `json:"routing_key"`
				MessageID    string `json:"message_id"`
				Due          int64
				SecondsLeft  int64 `json:"seconds_left"`
			}
		}
		b.API(t, "GET", "/api/"+of.path+"/delayed?count=3", nil).JSON(t, &list)
		if len(list.Items) != 3 || list.Total != 5 || list.Next != list.Items[2].ID {
			t.Fatalf("the list is %+v", list)
		}
		for i, x := range list.Items {
			if due := start + int64(1000*(3600-4+i)); x.MessageID != fmt.Sprint(4-i) || x.Exchange != of.exchange || x.RoutingKey != of.key || x.Due < due || x.Due > due+5000 || x.SecondsLeft < 3580 || x.SecondsLeft > 3600 {
				t.Errorf("entry %d is %+v", i, x)
			}
		}
		first, second := list.Items[0].ID, list.Items[1].ID
		b.API(t, "GET", "/api/"+of.path+"/delayed?after="+list.Next, nil).JSON(t, &list)
		if len(list.Items) != 2 || list.Items[0].MessageID != "1" {
			t.Errorf("the list goes on with %+v", list)
		}
		var shown struct {
			Payload    string
			Properties struct{ Headers map[string]any }
		}
		b.API(t, "GET", "/api/"+of.path+"/delayed/"+second, nil).JSON(t, &shown)
		if shown.Payload != "body 3" || shown.Properties.Headers["x-delay"] != float64(-3_597_000) {
			t.Errorf("it is shown as %+v", shown)
		}
		picksByAPI(t, b, "/api/"+of.path+"/delayed/", first, second, list.Next)
		deliveries := consume(t, p.ch, q, "c", true)
		receive(t, deliveries, "body 0", "body 2", "body 1")
		if err := p.ch.Cancel("c", false); err != nil {
			t.Fatal(err)
		}
	}
	p.later(t, "later", "k", amqp.Publishing{Headers: amqp.Table{"x-delay": int64(3_600_000)}})
	var x struct {
		Delayed int `json:"messages_delayed"`
	}
	harness.Eventually(t, 5*time.Second, func() error {
		b.API(t, "GET", "/api/exchanges/%2F/later", nil).JSON(t, &x)
		if x.Delayed != 1 {
			return fmt.Errorf("%d messages are delayed", x.Delayed)
		}
		return nil
	})
}

// picksByAPI cancels two messages of five and delivers the others.
func picksByAPI(t *testing.T, b *harness.Broker, path, first, second, third string) {
	t.Helper()
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		answer       string
	}{
		{"DELETE", first, nil, 204, ""}, {"DELETE", first, nil, 404, ""}, {"GET", first, nil, 404, ""}, {"GET", "x", nil, 400, ""},
		{"POST", "cancel", map[string]any{"ids": []string{second, first}}, 200, `{"messages":1}`}, {"POST", "deliver", map[string]any{}, 400, ""},
		{"POST", "deliver", map[string]any{"ids": []string{third}}, 200, `{"messages":1}`}, {"POST", "deliver", map[string]any{"all": true}, 200, `{"messages":2}`},
	} {
		a := b.API(t, c.method, path+c.path, c.body)
		if a.Status != c.status || c.answer != "" && strings.TrimSpace(string(a.Body)) != c.answer {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, a.Status, a.Body, c.status, c.answer)
		}
	}
}

// TestDelaysSurvive: a broker is killed while messages wait in an exchange and in queues. All come once, when they are due or, if that was while it was down, when it is back.
func TestDelaysSurvive(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	p := newPair(t, b)
	queues := []string{p.delayed(t, "later", "direct", "k"), "quorum", "classic"}
	for _, kind := range queues[1:] {
		harness.Declare(t, p.ch, kind, kind)
	}
	const many = 40
	at, latest := make(map[string]time.Time), make(map[string]time.Time)
	for i := range many {
		for _, to := range [][3]string{{"later", "k", queues[0]}, {"", "quorum", "quorum"}, {"", "classic", "classic"}} {
			millis := int64(1000 + 100*i)
			name, wait := fmt.Sprint(to[2], i), time.Duration(millis)*time.Millisecond
			at[name] = time.Now().Add(wait)
			p.later(t, to[0], to[1], amqp.Publishing{Headers: amqp.Table{"x-delay": millis}, DeliveryMode: 2, Body: fmt.Append(nil, i)})
			latest[name] = time.Now().Add(wait) // it was taken before the confirm
		}
	}
	b.Kill9()
	time.Sleep(time.Second)
	b.Launch(t)
	type arrival struct {
		body string
		at   time.Time
	}
	arrivals := make(chan arrival, 3*many)
	for _, q := range queues {
		deliveries := consume(t, b.Channel(t), q, "", true)
		go func() {
			for d := range deliveries {
				arrivals <- arrival{q + string(d.Body), time.Now()}
			}
		}()
	}
	back := time.Now().Add(500 * time.Millisecond)
	worst := time.Duration(0)
	for len(at) > 0 {
		select {
		case a := <-arrivals:
			due, ok := at[a.body]
			delete(at, a.body)
			late := a.at.Sub(latest[a.body])
			switch {
			case !ok:
				t.Errorf("%s comes twice", a.body)
			case a.at.Before(due):
				t.Errorf("%s comes %v early", a.body, due.Sub(a.at))
			case due.After(back) && late > lateMillis*time.Millisecond:
				t.Errorf("%s comes %v late", a.body, late)
			case due.After(back):
				worst = max(worst, late)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%d do not come, one is %v", len(at), slices.Sorted(maps.Keys(at))[0])
		}
	}
	t.Logf("what was due when the broker was back came %v late at most", worst)
	select {
	case a := <-arrivals:
		t.Errorf("%s comes twice", a.body)
	case <-time.After(500 * time.Millisecond):
	}
}

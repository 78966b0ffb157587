package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestRecentHistory holds what a new binding of an x-recent-history exchange gets. RabbitMQ answers the bind before it is there, and 3.10 at times keeps the last message only.
func TestRecentHistory(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	for name, test := range map[string]func(*testing.T, *pair){
		"last messages":            lastMessages,
		"not kept":                 notKept,
		"refused":                  historyRefused,
		"transactions":             historyOfTransactions,
		"exchange to exchange":     historyBetweenExchanges,
		"nobody sees it":           historyIsHidden,
		"gone with its exchange":   historyGoes,
		"by the HTTP API":          historyByAPI,
		"larger than one at once":  largeHistory,
		"expiration begins anew":   historyDoesNotExpire,
		"with nobody there at all": historyIsUnroutable,
	} {
		t.Run(name, func(t *testing.T) { test(t, newPair(t, b)) })
	}
}

// keep publishes bodies "1" to n.
func (p *pair) keep(t *testing.T, exchange string, from, to int) {
	t.Helper()
	harness.PublishConfirmed(t, p.broker.Channel(t), exchange, "key", numbers(from, to)...)
}

func numbers(from, to int) (bodies [][]byte) {
	for i := from; i <= to; i++ {
		bodies = append(bodies, fmt.Append(nil, i))
	}
	return bodies
}

func texts(bodies [][]byte) (out []string) {
	for _, b := range bodies {
		out = append(out, string(b))
	}
	return out
}

// lastMessages: the last twenty unless declared otherwise, in order, as they were, not redelivered; what is bound already gets them once.
func lastMessages(t *testing.T, p *pair) {
	const x = "e2e-history"
	p.exchange(t, x, "x-recent-history", nil)
	first := p.bound(t, x, "", nil)
	p.keep(t, x, 1, 30)
	late := p.bound(t, x, "any", nil)
	if q, err := p.ch.QueueDeclarePassive(late, false, true, true, false, nil); err != nil || q.Messages != 20 {
		t.Errorf("%d messages are there when the bind is answered, want 20: %v", q.Messages, err)
	}
	drained(t, p.ch, late, texts(numbers(11, 30))...)
	p.keep(t, x, 31, 31)
	all := get(t, p.ch, p.bound(t, x, "any", nil), "12")
	if d := all[0]; d.Exchange != x || d.RoutingKey != "key" {
		t.Errorf("kept as %s %s", d.Exchange, d.RoutingKey)
	}
	drained(t, p.ch, first, texts(numbers(1, 31))...)
	// A binding that is there gives nothing again, another one of the same queue does.
	if err := p.ch.QueueBind(first, "", x, false, nil); err != nil {
		t.Fatal(err)
	}
	drained(t, p.ch, first)
	if err := p.ch.QueueBind(first, "again", x, false, nil); err != nil {
		t.Fatal(err)
	}
	drained(t, p.ch, first, texts(numbers(12, 31))...)

	p.exchange(t, x, "x-recent-history", amqp.Table{"x-recent-history-length": int64(3)})
	if err := p.ch.ExchangeDeclare(x, "x-recent-history", true, false, false, false, amqp.Table{"x-recent-history-length": int32(5)}); err != nil {
		t.Errorf("declared again with another length: %v", err)
	}
	p.keep(t, x, 1, 7)
	drained(t, p.ch, p.bound(t, x, "", nil), "5", "6", "7")
	p.broker.DropExchange(t, x)
}

func notKept(t *testing.T, p *pair) {
	const x = "e2e-history-not-kept"
	p.exchange(t, x, "x-recent-history", nil)
	q := p.bound(t, x, "", nil)
	for _, c := range []struct {
		body   string
		header any
	}{{"true", true}, {"false", false}, {"text", "true"}} {
		p.sends(t, x, "", amqp.Publishing{Headers: amqp.Table{"x-recent-history-no-store": c.header}, Body: []byte(c.body)})
	}
	drained(t, p.ch, q, "true", "false", "text")
	drained(t, p.ch, p.bound(t, x, "", nil), "false", "text")
	p.broker.DropExchange(t, x)
}

func historyRefused(t *testing.T, p *pair) {
	const x = "e2e-history-refused"
	p.broker.DropExchange(t, x)
	for _, c := range []struct {
		length any
		text   string
	}{{int64(0), "0"}, {int32(-30), "-30"}, {"many", `<<"many">>`}} {
		err := harness.Channel(t, p.conn).ExchangeDeclare(x, "x-recent-history", true, false, false, false, amqp.Table{"x-recent-history-length": c.length})
		closes(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - Invalid argument "+c.text+", 'x-recent-history-length' must be a positive integer")
	}
}

// historyOfTransactions: what is committed is kept, what is rolled back is not.
func historyOfTransactions(t *testing.T, p *pair) {
	const x = "e2e-history-tx"
	p.exchange(t, x, "x-recent-history", nil)
	if err := p.other.Tx(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body string
		end  func() error
	}{{"committed", p.other.TxCommit}, {"rolled back", p.other.TxRollback}} {
		if err := p.other.PublishWithContext(t.Context(), x, "", false, false, text(c.body)); err != nil {
			t.Fatal(err)
		}
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
	}
	drained(t, p.ch, p.bound(t, x, "", nil), "committed")
	p.broker.DropExchange(t, x)
}

// historyBetweenExchanges: what comes from another exchange is kept, and an exchange that is bound leads the last messages on.
func historyBetweenExchanges(t *testing.T, p *pair) {
	const front, x, back = "e2e-history-front", "e2e-history-x", "e2e-history-back"
	p.exchange(t, front, "direct", nil)
	p.exchange(t, x, "x-recent-history", amqp.Table{"x-recent-history-length": int64(4)})
	p.exchange(t, back, "topic", nil)
	if err := p.ch.ExchangeBind(x, "key", front, false, nil); err != nil {
		t.Fatal(err)
	}
	p.keep(t, front, 1, 6)
	drained(t, p.ch, p.bound(t, x, "", nil), "3", "4", "5", "6")
	takes, other := p.bound(t, back, "key", nil), p.bound(t, back, "other", nil)
	if err := p.ch.ExchangeBind(back, "", x, false, nil); err != nil {
		t.Fatal(err)
	}
	drained(t, p.ch, takes, "3", "4", "5", "6")
	drained(t, p.ch, other)
	for _, name := range []string{front, x, back} {
		p.broker.DropExchange(t, name)
	}
}

// historyIsHidden: no list, count or metric has what keeps the messages, and nobody gets at it by name.
func historyIsHidden(t *testing.T, p *pair) {
	const x, name = "e2e-history-hidden", "amq.recent-history:e2e-history-hidden"
	p.exchange(t, x, "x-recent-history", nil)
	p.keep(t, x, 1, 3)
	for _, path := range []string{"/api/queues", "/api/queues/%2F", "/api/bindings", "/api/bindings/%2F", "/api/vhosts", "/metrics/per-object"} {
		if a := p.broker.API(t, http.MethodGet, path, nil); strings.Contains(string(a.Body), "amq.recent-history") {
			t.Errorf("%s shows it", path)
		}
	}
	if a := p.broker.API(t, http.MethodGet, "/api/queues/%2F/"+name, nil); a.Status != http.StatusNotFound {
		t.Errorf("GET answers %d", a.Status)
	}
	var overview struct {
		Totals struct{ Queues int } `json:"object_totals"`
	}
	var queues []struct{ Name string }
	p.broker.Get(t, "/api/queues", &queues)
	if p.broker.Get(t, "/api/overview", &overview); overview.Totals.Queues != len(queues) {
		t.Errorf("%d queues are counted, %d listed", overview.Totals.Queues, len(queues))
	}
	notFound := "NOT_FOUND - no queue '" + name + "' in vhost '/'"
	ch := harness.Channel(t, p.conn)
	_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	closes(t, err, amqp.NotFound, notFound)
	_, err = harness.Channel(t, p.conn).Consume(name, "", false, false, false, false, nil)
	closes(t, err, amqp.NotFound, notFound)
	closes(t, harness.Channel(t, p.conn).QueueBind(name, "", "amq.fanout", false, nil), amqp.NotFound, notFound)
	_, err = harness.Channel(t, p.conn).QueueDeclare(name, true, false, false, false, nil)
	closes(t, err, amqp.AccessRefused, "ACCESS_REFUSED - queue name '"+name+"' contains reserved prefix 'amq.*'")
	if n, err := harness.Channel(t, p.conn).QueueDelete(name, false, false, false); err != nil || n != 0 {
		t.Errorf("a delete finds %d messages, %v", n, err)
	}
	if !p.sends(t, "", name, text("smuggled")) {
		t.Error("a publish by name is not returned")
	}
	drained(t, p.ch, p.bound(t, x, "", nil), "1", "2", "3")
	p.broker.DropExchange(t, x)
}

// historyGoes: an exchange of the same name starts with nothing, also when it went with its last binding.
func historyGoes(t *testing.T, p *pair) {
	const x = "e2e-history-goes"
	p.exchange(t, x, "x-recent-history", nil)
	p.keep(t, x, 1, 2)
	p.exchange(t, x, "x-recent-history", nil)
	drained(t, p.ch, p.bound(t, x, "", nil))
	p.broker.DropExchange(t, x)
	for range 2 {
		if err := p.ch.ExchangeDeclare(x, "x-recent-history", true, true, false, false, nil); err != nil {
			t.Fatal(err)
		}
		p.keep(t, x, 1, 2)
		q := p.bound(t, x, "", nil)
		drained(t, p.ch, q, "1", "2")
		if err := p.ch.QueueUnbind(q, "", x, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func historyByAPI(t *testing.T, p *pair) {
	const x = "e2e-history-api"
	p.broker.DropExchange(t, x)
	if a := p.broker.API(t, http.MethodPut, "/api/exchanges/%2F/"+x, map[string]any{"type": "x-recent-history", "arguments": map[string]any{"x-recent-history-length": 2}}); a.Status != http.StatusCreated {
		t.Fatalf("PUT: %d %s", a.Status, a.Body)
	}
	for _, body := range []string{"1", "2", "3"} {
		a := p.broker.API(t, http.MethodPost, "/api/exchanges/%2F/"+x+"/publish", map[string]any{"routing_key": "", "payload": body, "payload_encoding": "string", "properties": map[string]any{}})
		if a.Status != http.StatusOK || !strings.Contains(string(a.Body), "false") {
			t.Fatalf("publish: %d %s", a.Status, a.Body)
		}
	}
	q, err := p.ch.QueueDeclare("", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := p.broker.API(t, http.MethodPost, "/api/bindings/%2F/e/"+x+"/q/"+q.Name, map[string]any{"routing_key": "r", "arguments": map[string]any{}}); a.Status != http.StatusCreated {
		t.Fatalf("bind: %d %s", a.Status, a.Body)
	}
	drained(t, p.ch, q.Name, "2", "3")
	p.broker.DropQueue(t, q.Name)
	p.broker.DropExchange(t, x)
}

// largeHistory: more than goes at once, in number and in size.
func largeHistory(t *testing.T, p *pair) {
	const x = "e2e-history-large"
	p.exchange(t, x, "x-recent-history", amqp.Table{"x-recent-history-length": int64(200)})
	p.keep(t, x, 1, 250)
	large := []byte(strings.Repeat("x", 3<<20))
	harness.PublishConfirmed(t, p.broker.Channel(t), x, "", large, []byte("last"))
	q := p.bound(t, x, "", nil)
	drained(t, p.ch, q, append(texts(numbers(53, 250)), string(large), "last")...)
	p.broker.DropExchange(t, x)
}

// historyDoesNotExpire: a message whose time ends in queues is kept, and its time begins anew where it is copied to.
func historyDoesNotExpire(t *testing.T, p *pair) {
	const x = "e2e-history-expires"
	p.exchange(t, x, "x-recent-history", nil)
	dead, err := p.ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	expired := consume(t, p.ch, dead.Name, "", true)
	for round := range 2 {
		q, err := p.ch.QueueDeclare("", false, true, true, false, amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.Name})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.ch.QueueBind(q.Name, "", x, false, nil); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			p.sends(t, x, "", amqp.Publishing{Expiration: "1", Body: []byte("short")})
		}
		receive(t, expired, "short")
	}
	p.broker.DropExchange(t, x)
}

// historyIsUnroutable: a message that is kept and goes nowhere comes back to a publisher that wants to know.
func historyIsUnroutable(t *testing.T, p *pair) {
	const x = "e2e-history-unroutable"
	p.exchange(t, x, "x-recent-history", nil)
	if !p.sends(t, x, "", text("kept")) {
		t.Error("it is not returned")
	}
	q := p.bound(t, x, "", nil)
	drained(t, p.ch, q, "kept")
	if p.sends(t, x, "", text("routed")) {
		t.Error("it is returned, though there is a queue")
	}
	drained(t, p.ch, q, "routed")
	p.broker.DropExchange(t, x)
}

// TestHistoryAfterRestart: the history of a durable exchange outlives the broker, and a new one begins where the exchange does.
func TestHistoryAfterRestart(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Options{})
	p := newPair(t, b)
	for _, durable := range []bool{true, false} {
		if err := p.ch.ExchangeDeclare(fmt.Sprint(durable), "x-recent-history", durable, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		p.keep(t, fmt.Sprint(durable), 1, 22)
	}
	b.Kill9()
	b.Launch(t)
	p = newPair(t, b)
	if err := p.ch.ExchangeDeclare("false", "x-recent-history", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	drained(t, p.ch, p.bound(t, "false", "", nil))
	p.keep(t, "true", 23, 24)
	drained(t, p.ch, p.bound(t, "true", "", nil), texts(numbers(5, 24))...)
}

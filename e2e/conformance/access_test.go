package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// accessVHost is the virtual host of these tests, accessUser the user whose rights they change, with the password accessPassword.
const (
	accessVHost    = "access"
	accessUser     = "access-user"
	accessPassword = "secret"
)

// right is one thing that an operation asks for. With a key it is a topic permission.
type right struct{ access, kind, name, key string }

func (r right) refusal() string {
	what := fmt.Sprintf("%s '%s' in vhost '%s'", r.kind, r.name, accessVHost)
	if r.key != "" {
		what = fmt.Sprintf("topic '%s' in %s", r.key, what)
	}
	return fmt.Sprintf("ACCESS_REFUSED - %s access to %s refused for user '%s'", r.access, what, accessUser)
}

func configure(kind, name string) right { return right{"configure", kind, name, ""} }
func write(kind, name string) right     { return right{"write", kind, name, ""} }
func read(kind, name string) right      { return right{"read", kind, name, ""} }

// operation is one row of the matrix: what is done over AMQP and, where the HTTP API has it, there, and the rights that it asks for, in the order in which they are looked at.
type operation struct {
	name   string
	rights []right
	amqp   func(ch *amqp.Channel) error
	// method, path and body are the same over HTTP.
	method string
	path   []string
	body   any
	// any says that one of the rights will do; without all of them the first is missed.
	any bool
}

func publishes(exchange, key string) func(*amqp.Channel) error {
	return func(ch *amqp.Channel) error {
		if err := ch.Publish(exchange, key, false, false, amqp.Publishing{}); err != nil {
			return err
		}
		return ch.Qos(1, 0, false) // a round trip behind it
	}
}

func declares(name string, passive bool, args amqp.Table) func(*amqp.Channel) error {
	return func(ch *amqp.Channel) error {
		if passive {
			_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			return err
		}
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		return err
	}
}

type object = map[string]any

// matrix has q, x (direct), t (topic), d (fanout), dlx and ae (fanout), and the bindings of q and d to x and t with the key k; new does not exist.
func matrix() []operation {
	queue := func(name string, more ...string) []string {
		return append([]string{"queues", accessVHost, name}, more...)
	}
	exchange := func(name string, more ...string) []string {
		return append([]string{"exchanges", accessVHost, name}, more...)
	}
	bindings := func(source, kind, destination string, more ...string) []string {
		return append([]string{"bindings", accessVHost, "e", source, kind, destination}, more...)
	}
	message := object{"routing_key": "k", "properties": object{}, "payload": "", "payload_encoding": "string"}
	toDLX, toAE := amqp.Table{"x-dead-letter-exchange": "dlx"}, amqp.Table{"alternate-exchange": "ae"}
	topic := func(access string) right { return right{access, "exchange", "t", "k"} }
	return []operation{
		{"publish", []right{write("exchange", "x")}, publishes("x", "k"), "POST", exchange("x", "publish"), message, false},
		{"publish to the default exchange", []right{write("exchange", "amq.default")}, publishes("", "k"), "POST", exchange("amq.default", "publish"), message, false},
		{"publish to a topic", []right{write("exchange", "t"), topic("write")}, publishes("t", "k"), "POST", exchange("t", "publish"), message, false},
		{"declare a queue", []right{configure("queue", "new")}, declares("new", false, nil), "PUT", queue("new"), object{"durable": true}, false},
		{"declare a queue again", []right{configure("queue", "q")}, declares("q", false, nil), "PUT", queue("q"), object{"durable": true}, false},
		{"declare a queue with dead letters", []right{configure("queue", "new"), read("queue", "new"), write("exchange", "dlx")}, declares("new", false, toDLX),
			"PUT", queue("new"), object{"durable": true, "arguments": toDLX}, false},
		{"look for a queue", []right{configure("queue", "q"), read("queue", "q"), write("queue", "q")}, declares("q", true, nil), "", nil, nil, true},
		{"delete a queue", []right{configure("queue", "q")}, func(ch *amqp.Channel) error { _, err := ch.QueueDelete("q", false, false, false); return err }, "DELETE", queue("q"), nil, false},
		{"purge", []right{read("queue", "q")}, func(ch *amqp.Channel) error { _, err := ch.QueuePurge("q", false); return err }, "DELETE", queue("q", "contents"), nil, false},
		{"get", []right{read("queue", "q")}, func(ch *amqp.Channel) error { _, _, err := ch.Get("q", true); return err },
			"POST", queue("q", "get"), object{"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}, false},
		{"consume", []right{read("queue", "q")}, func(ch *amqp.Channel) error {
			_, err := ch.Consume("q", "", true, false, false, false, nil)
			return err
		}, "", nil, nil, false},
		{"bind a queue", []right{write("queue", "q"), read("exchange", "x")}, func(ch *amqp.Channel) error { return ch.QueueBind("q", "k", "x", false, nil) },
			"POST", bindings("x", "q", "q"), object{"routing_key": "k"}, false},
		{"bind a queue to a topic", []right{write("queue", "q"), read("exchange", "t"), topic("read")}, func(ch *amqp.Channel) error { return ch.QueueBind("q", "k", "t", false, nil) },
			"POST", bindings("t", "q", "q"), object{"routing_key": "k"}, false},
		{"unbind a queue", []right{write("queue", "q"), read("exchange", "x")}, func(ch *amqp.Channel) error { return ch.QueueUnbind("q", "k", "x", nil) }, "DELETE", bindings("x", "q", "q", "k"), nil, false},
		{"unbind a queue from a topic", []right{write("queue", "q"), read("exchange", "t"), topic("read")}, func(ch *amqp.Channel) error { return ch.QueueUnbind("q", "k", "t", nil) },
			"DELETE", bindings("t", "q", "q", "k"), nil, false},
		{"bind an exchange", []right{write("exchange", "d"), read("exchange", "x")}, func(ch *amqp.Channel) error { return ch.ExchangeBind("d", "k", "x", false, nil) },
			"POST", bindings("x", "e", "d"), object{"routing_key": "k"}, false},
		{"bind an exchange to a topic", []right{write("exchange", "d"), read("exchange", "t"), topic("read")}, func(ch *amqp.Channel) error { return ch.ExchangeBind("d", "k", "t", false, nil) },
			"POST", bindings("t", "e", "d"), object{"routing_key": "k"}, false},
		{"unbind an exchange", []right{write("exchange", "d"), read("exchange", "x")}, func(ch *amqp.Channel) error { return ch.ExchangeUnbind("d", "k", "x", false, nil) }, "DELETE", bindings("x", "e", "d", "k"), nil, false},
		{"unbind an exchange from a topic", []right{write("exchange", "d"), read("exchange", "t"), topic("read")}, func(ch *amqp.Channel) error { return ch.ExchangeUnbind("d", "k", "t", false, nil) },
			"DELETE", bindings("t", "e", "d", "k"), nil, false},
		{"declare an exchange", []right{configure("exchange", "new")}, func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("new", "fanout", true, false, false, false, nil)
		},
			"PUT", exchange("new"), object{"type": "fanout", "durable": true}, false},
		{"declare an exchange with an alternate", []right{configure("exchange", "new"), read("exchange", "new"), write("exchange", "ae")},
			func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare("new", "fanout", true, false, false, false, toAE)
			},
			"PUT", exchange("new"), object{"type": "fanout", "durable": true, "arguments": toAE}, false},
		{"look for an exchange", []right{configure("exchange", "x"), read("exchange", "x"), write("exchange", "x")},
			func(ch *amqp.Channel) error {
				return ch.ExchangeDeclarePassive("x", "direct", true, false, false, false, nil)
			}, "", nil, nil, true},
		{"delete an exchange", []right{configure("exchange", "x")}, func(ch *amqp.Channel) error { return ch.ExchangeDelete("x", false, false) }, "DELETE", exchange("x"), nil, false},
	}
}

// accessTest has a virtual host, a user, and connections of both guest, who makes everything anew for each attempt, and the user.
type accessTest struct {
	*testing.T
	broker      *harness.Broker
	guest, user *amqp.Connection
}

func newAccessTest(t *testing.T) *accessTest {
	b := harness.StartOrExternal(t, harness.Options{})
	a := &accessTest{T: t, broker: b}
	a.put(object{}, "vhosts", accessVHost)
	t.Cleanup(func() { b.API(t, http.MethodDelete, harness.Path("vhosts", accessVHost), nil) })
	a.put(object{"configure": ".*", "write": ".*", "read": ".*"}, "permissions", accessVHost, "guest")
	a.put(object{"password": accessPassword, "tags": "management"}, "users", accessUser)
	t.Cleanup(func() { b.API(t, http.MethodDelete, harness.Path("users", accessUser), nil) })
	a.allow()
	a.guest, a.user = a.connect("guest", "guest"), a.connect(accessUser, accessPassword)
	return a
}

func (a *accessTest) connect(user, password string) *amqp.Connection {
	a.Helper()
	u, err := url.Parse(a.broker.AMQPURL())
	if err != nil {
		a.Fatal(err)
	}
	u.User, u.Path = url.UserPassword(user, password), "/"+accessVHost
	conn, err := amqp.Dial(u.String())
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = conn.Close() })
	return conn
}

// put changes something as guest.
func (a *accessTest) put(body any, path ...string) {
	a.Helper()
	if answer := a.broker.API(a, http.MethodPut, harness.Path(path...), body); answer.Status/100 != 2 {
		a.Fatalf("PUT %v: %d %s", path, answer.Status, answer.Body)
	}
}

// allow gives the user exactly these rights. The topic t is bounded to keys that its rights name.
func (a *accessTest) allow(rights ...right) {
	a.Helper()
	patterns := map[string][]string{}
	topics := object{"exchange": "t", "write": "", "read": ""}
	for _, r := range rights {
		if r.key != "" {
			topics[r.access] = "^" + r.key + "$"
			continue
		}
		patterns[r.access] = append(patterns[r.access], regexp.QuoteMeta(r.name))
	}
	body := object{}
	for _, access := range []string{"configure", "write", "read"} {
		body[access] = ""
		if names := patterns[access]; names != nil {
			body[access] = "^(" + strings.Join(names, "|") + ")$"
		}
	}
	a.put(body, "permissions", accessVHost, accessUser)
	a.put(topics, "topic-permissions", accessVHost, accessUser)
}

// reset makes what the matrix needs.
func (a *accessTest) reset(ch *amqp.Channel) {
	a.Helper()
	_, err := ch.QueueDelete("new", false, false, false)
	err = errors.Join(err, ch.ExchangeDelete("new", false, false))
	_, e := ch.QueueDeclare("q", true, false, false, false, nil)
	err = errors.Join(err, e)
	for name, kind := range map[string]string{"x": "direct", "t": "topic", "d": "fanout", "dlx": "fanout", "ae": "fanout"} {
		err = errors.Join(err, ch.ExchangeDeclare(name, kind, true, false, false, false, nil))
	}
	for _, source := range []string{"x", "t"} {
		err = errors.Join(err, ch.QueueBind("q", "k", source, false, nil), ch.ExchangeBind("d", "k", source, false, nil))
	}
	if err != nil {
		a.Fatal(err)
	}
}

// attempt does it on a new channel and returns why that was closed, "" if it was not.
func (a *accessTest) attempt(op *operation) string {
	a.Helper()
	ch := harness.Channel(a, a.user)
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	err := op.amqp(ch)
	if err == nil {
		_ = ch.Close()
		return ""
	}
	reason := next(a.T, closed, "channel.close")
	if reason == nil || reason.Code != amqp.AccessRefused {
		a.Fatalf("%s: %v, %v", op.name, err, reason)
	}
	return reason.Reason
}

// attemptHTTP does it over HTTP and returns the reason of a refusal.
func (a *accessTest) attemptHTTP(op *operation) string {
	a.Helper()
	answer := a.broker.APIAs(a, accessUser, accessPassword, op.method, harness.Path(op.path...), op.body)
	if answer.Status/100 == 2 {
		return ""
	}
	var refusal struct{ Error, Reason string }
	if err := json.Unmarshal(answer.Body, &refusal); err != nil || answer.Status != http.StatusUnauthorized || refusal.Error != "not_authorised" {
		a.Fatalf("%s: %s %v: %d %s", op.name, op.method, op.path, answer.Status, answer.Body)
	}
	return refusal.Reason
}

// without returns the rights but one.
func without(rights []right, i int) []right {
	return append(append([]right(nil), rights[:i]...), rights[i+1:]...)
}

// TestAccess is the matrix of operations and rights: with exactly the rights of its row an operation is carried out, and without any one of them it is refused with that one's text, over AMQP as over
// HTTP.
func TestAccess(t *testing.T) {
	a := newAccessTest(t)
	guest := harness.Channel(t, a.guest)
	try := func(op *operation, rights []right, want string) {
		t.Helper()
		a.allow(rights...)
		a.reset(guest)
		if got := a.attempt(op); got != want {
			t.Errorf("%s with %v\ngot  %q\nwant %q", op.name, rights, got, want)
		}
		if op.method == "" || a.broker.External() { // RabbitMQ's HTTP API does not say what it refuses
			return
		}
		a.reset(guest)
		if got := a.attemptHTTP(op); got != want {
			t.Errorf("%s over HTTP with %v\ngot  %q\nwant %q", op.name, rights, got, want)
		}
	}
	for _, op := range matrix() {
		switch {
		case op.any && a.broker.External(): // before 4.2.6 RabbitMQ asks for none
		case op.any:
			for _, r := range op.rights {
				try(&op, []right{r}, "")
			}
			try(&op, nil, op.rights[0].refusal())
		default:
			try(&op, op.rights, "")
			for i, r := range op.rights {
				try(&op, without(op.rights, i), r.refusal())
			}
		}
	}
}

// TestRevocation takes rights away from open connections: a second later at most nothing is left of them.
func TestRevocation(t *testing.T) {
	a := newAccessTest(t)
	a.reset(harness.Channel(t, a.guest))
	a.allow(read("queue", "q"), write("exchange", "x"))
	ch := harness.Channel(t, a.user)
	cancelled := ch.NotifyCancel(make(chan string, 1))
	deliveries := consume(t, ch, "q", "consumer", true)
	publisher := harness.Channel(t, a.user)
	if err := publishes("x", "k")(publisher); err != nil {
		t.Fatal(err)
	}
	receive(t, deliveries, "")
	began := time.Now()
	a.allow(write("exchange", "x"))
	if !a.broker.External() { // RabbitMQ's consumers go on
		if tag := next(t, cancelled, "basic.cancel"); tag != "consumer" || time.Since(began) > time.Second {
			t.Errorf("cancelled %q after %v", tag, time.Since(began))
		}
	}
	a.put(object{"password": "another", "tags": ""}, "users", accessUser)
	if err := publishes("x", "k")(publisher); err != nil {
		t.Errorf("after a change of the password: %v", err)
	}
	if err := a.user.UpdateSecret("neither", "a test"); err != nil { // users of the broker itself have no secret that could expire
		t.Errorf("update-secret: %v", err)
	}
	closed := a.user.NotifyClose(make(chan *amqp.Error, 1))
	a.broker.API(t, http.MethodDelete, harness.Path("users", accessUser), nil)
	if reason := next(t, closed, "connection.close"); reason == nil || reason.Code != amqp.ConnectionForced || reason.Reason != "CONNECTION_FORCED - user '"+accessUser+"' is deleted" {
		t.Errorf("closed with %v", reason)
	}
}

// TestLimits has each limit of a virtual host and of a user refuse what is beyond it, with its text.
func TestLimits(t *testing.T) {
	a := newAccessTest(t)
	a.allow(configure("queue", "new"))
	u, err := url.Parse(a.broker.AMQPURL())
	if err != nil {
		t.Fatal(err)
	}
	u.User, u.Path = url.UserPassword(accessUser, accessPassword), "/"+accessVHost
	for _, c := range []struct {
		limit  []string
		refuse func() error
		code   int
		text   string
	}{
		{[]string{"vhost-limits", accessVHost, "max-queues"}, func() error {
			_, err := harness.Channel(t, a.user).QueueDeclare("new", true, false, false, false, nil)
			return err
		}, amqp.PreconditionFailed, "PRECONDITION_FAILED - cannot declare queue 'new': queue limit in vhost 'access' (0) is reached"},
		{[]string{"vhost-limits", accessVHost, "max-connections"}, func() error { _, err := amqp.Dial(u.String()); return err }, amqp.NotAllowed,
			"NOT_ALLOWED - access to vhost 'access' refused for user 'access-user': connection limit (0) is reached"},
		{[]string{"user-limits", accessUser, "max-connections"}, func() error { _, err := amqp.Dial(u.String()); return err }, amqp.NotAllowed,
			"NOT_ALLOWED - connection refused for user 'access-user': user connection limit (0) is reached"},
		{[]string{"user-limits", accessUser, "max-channels"}, func() error { _, err := a.user.Channel(); return err }, amqp.NotAllowed,
			"NOT_ALLOWED - number of channels opened for user 'access-user' has reached the maximum allowed user limit of (0)"},
	} {
		a.put(object{"value": 0}, c.limit...)
		err := c.refuse()
		var closed *amqp.Error
		if !errors.As(err, &closed) || closed.Code != c.code || closed.Reason != c.text {
			t.Errorf("%v: %v, want %d %s", c.limit, err, c.code, c.text)
		}
		if answer := a.broker.API(t, http.MethodDelete, harness.Path(c.limit...), nil); answer.Status != http.StatusNoContent {
			t.Errorf("%v: %d", c.limit, answer.Status)
		}
	}
}

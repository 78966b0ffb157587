package conformance

import (
	"fmt"
	"net/http"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

// TestExchanges holds which way messages go and what exchanges refuse.
func TestExchanges(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	for name, test := range map[string]func(*testing.T, *pair){
		"consistent hash":                        consistentHash,
		"consistent hash: refused":               consistentHashRefused,
		"headers":                                headersExchange,
		"headers: binding refused":               headersRefused,
		"carbon copies":                          carbonCopies,
		"exchange to exchange":                   exchangeToExchange,
		"exchange to exchange refused":           exchangeBindRefused,
		"internal exchange":                      internalExchange,
		"auto-delete exchange":                   autoDeleteExchange,
		"alternate exchange":                     alternateExchange,
		"alternate exchange and carbon copies":   alternateAndCopies,
		"alternate exchange: default exchange":   alternateDefault,
		"alternate exchange: declaration":        alternateDeclared,
		"local random":                           localRandom,
		"random":                                 randomExchange,
		"permissions of alternate exchanges":     alternatePermissions,
		"permissions of bindings":                bindPermissions,
		"passive declaration without permission": passiveDeclaration,
	} {
		t.Run(name, func(t *testing.T) { test(t, newPair(t, b)) })
	}
}

// exchange declares a durable exchange of the test.
func (p *pair) exchange(t *testing.T, name, kind string, args amqp.Table) {
	t.Helper()
	p.broker.DropExchange(t, name)
	if err := p.ch.ExchangeDeclare(name, kind, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
}

// bound declares an exclusive queue and binds it.
func (p *pair) bound(t *testing.T, exchange, key string, args amqp.Table) string {
	t.Helper()
	q, err := p.ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ch.QueueBind(q.Name, key, exchange, false, args); err != nil {
		t.Fatal(err)
	}
	return q.Name
}

// sends publishes a mandatory message and tells whether it came back.
func (p *pair) sends(t *testing.T, exchange, key string, m amqp.Publishing) (returned bool) {
	t.Helper()
	ch := p.broker.Channel(t)
	defer ch.Close()
	returns := ch.NotifyReturn(make(chan amqp.Return, 1))
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, key, true, false, m)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := c.WaitContext(t.Context()); err != nil || !ok {
		t.Fatalf("publish to %q: confirmed %t, %v", exchange, ok, err)
	}
	select { // a return comes before its confirm
	case r := <-returns:
		if r.ReplyCode != amqp.NoRoute || r.Exchange != exchange || r.RoutingKey != key {
			t.Errorf("returned %d, exchange %q, key %q", r.ReplyCode, r.Exchange, r.RoutingKey)
		}
		return true
	default:
		return false
	}
}

func text(body string) amqp.Publishing { return amqp.Publishing{Body: []byte(body)} }

// headersExchange: keys must be there, values be equal whatever their types; keys that begin with x- count in the modes -with-x only.
func headersExchange(t *testing.T, p *pair) {
	for _, c := range []struct {
		binding, headers amqp.Table
		taken            bool
	}{
		{amqp.Table{"a": int32(1), "b": "x"}, amqp.Table{"a": int64(1), "b": "x", "c": true}, true},
		{amqp.Table{"x-match": "all", "a": int32(1), "b": "x"}, amqp.Table{"a": int32(1)}, false},
		{amqp.Table{"x-match": "all", "a": int32(1)}, amqp.Table{"a": "1"}, false},
		{amqp.Table{"x-match": "any", "a": int32(1), "b": "x"}, amqp.Table{"a": int32(1)}, true},
		{amqp.Table{"x-match": "any", "a": int32(1), "b": "x"}, amqp.Table{"a": int32(2)}, false},
		{amqp.Table{"a": nil}, amqp.Table{"a": "anything"}, true},
		{amqp.Table{"a": nil}, amqp.Table{"a": nil}, true},
		{amqp.Table{"a": nil}, amqp.Table{"b": "anything"}, false},
		{amqp.Table{"a": int32(1)}, amqp.Table{"a": nil}, false},
		{amqp.Table{"a": true}, amqp.Table{"a": true}, true},
		{amqp.Table{"a": true}, amqp.Table{"a": int32(1)}, false},
		{amqp.Table{"a": "text"}, amqp.Table{"a": []byte("text")}, true},
		{amqp.Table{"a": 1.5}, amqp.Table{"a": float32(1.5)}, true},
		{amqp.Table{"a": []any{int32(1), "x"}}, amqp.Table{"a": []any{int32(1), "x"}}, true},
		{amqp.Table{"a": []any{int32(1), "x"}}, amqp.Table{"a": []any{int32(1), "y"}}, false},
		{amqp.Table{"a": amqp.Table{"in": "x"}}, amqp.Table{"a": amqp.Table{"in": "x"}}, true},
		{nil, nil, true},
		{amqp.Table{"x-match": "all"}, amqp.Table{"a": true}, true},
		{amqp.Table{"x-match": "any"}, amqp.Table{"a": true}, false},
		{amqp.Table{"x-match": "all", "x-a": int32(1)}, nil, true},
		{amqp.Table{"x-match": "any", "x-a": int32(1)}, amqp.Table{"x-a": int32(1)}, false},
		{amqp.Table{"x-match": "all-with-x", "x-a": int32(1)}, amqp.Table{"x-a": int32(1)}, true},
		{amqp.Table{"x-match": "all-with-x", "x-a": int32(1)}, nil, false},
		{amqp.Table{"x-match": "any-with-x", "x-a": int32(1), "b": "x"}, amqp.Table{"x-a": int32(1)}, true},
		{amqp.Table{"x-match": "any-with-x"}, amqp.Table{"x-match": "any-with-x"}, false},
	} {
		queue := p.bound(t, "amq.headers", "", c.binding)
		if returned := p.sends(t, "amq.headers", "key", amqp.Publishing{Headers: c.headers}); returned == c.taken {
			t.Errorf("binding %v, headers %v: taken %t, want %t", c.binding, c.headers, !returned, c.taken)
		}
		if err := p.ch.QueueUnbind(queue, "", "amq.headers", c.binding); err != nil {
			t.Fatal(err)
		}
	}
}

func headersRefused(t *testing.T, p *pair) {
	queue := p.bound(t, "amq.fanout", "", nil)
	for _, c := range []struct {
		value any
		text  string
	}{
		{"most", `value <<"most">>; expected all, any, all-with-x, or any-with-x`},
		{"", `value <<>>; expected all, any, all-with-x, or any-with-x`},
		{`"`, `value <<"\"">>; expected all, any, all-with-x, or any-with-x`},
		{"\x01\xff", `value <<1,255>>; expected all, any, all-with-x, or any-with-x`},
		{int32(5), "type signedint (value 5); expected longstr"},
		{true, "type bool (value true); expected longstr"},
		{2.5, "type double (value 2.5); expected longstr"},
		{2.0, "type double (value 2.0); expected longstr"},
		{nil, "type void (value undefined); expected longstr"},
		{[]byte("all"), `type binary (value <<"all">>); expected longstr`},
		{[]any{int32(1), "a"}, `type array (value [{signedint,1},{longstr,<<"a">>}]); expected longstr`},
		{amqp.Table{"a": true}, `type table (value [{<<"a">>,bool,true}]); expected longstr`},
	} {
		err := harness.Channel(t, p.conn).QueueBind(queue, "", "amq.headers", false, amqp.Table{"x-match": c.value})
		closes(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - Invalid x-match field "+c.text)
	}
	// Nobody but a headers exchange asks for the mode.
	if err := p.ch.QueueBind(queue, "", "amq.direct", false, amqp.Table{"x-match": "most"}); err != nil {
		t.Error(err)
	}
}

// carbonCopies go to the queues of all keys, once each; nobody sees who got a blind one.
func carbonCopies(t *testing.T, p *pair) {
	one, two, three := p.bound(t, "amq.direct", "cc-1", nil), p.bound(t, "amq.direct", "cc-2", nil), p.bound(t, "amq.topic", "cc.#", nil)
	p.sends(t, "amq.direct", "cc-1", amqp.Publishing{Headers: amqp.Table{"CC": []any{"cc-2", "cc-1"}, "BCC": []any{"cc-2"}}, Body: []byte("m")})
	p.sends(t, "amq.topic", "none", amqp.Publishing{Headers: amqp.Table{"BCC": []any{"cc.x", int32(5)}}, Body: []byte("blind")})
	for _, queue := range []string{one, two} {
		d := get(t, p.ch, queue, "m")[0]
		if _, ok := d.Headers["BCC"]; ok || len(d.Headers) != 1 || d.RoutingKey != "cc-1" {
			t.Errorf("key %q, headers %v", d.RoutingKey, d.Headers)
		}
		drained(t, p.ch, queue)
	}
	drained(t, p.ch, three, "blind")
	for _, header := range []string{"CC", "BCC"} {
		ch := p.broker.Channel(t)
		closed := ch.NotifyClose(make(chan *amqp.Error, 1))
		if err := ch.PublishWithContext(t.Context(), "", "k", false, false, amqp.Publishing{Headers: amqp.Table{header: "text"}}); err != nil {
			t.Fatal(err)
		}
		closes(t, next(t, closed, "channel.close"), amqp.PreconditionFailed, `PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,`)
	}
}

func exchangeToExchange(t *testing.T, p *pair) {
	const from, to = "e2e-from", "e2e-to"
	for _, x := range []string{from, to} {
		p.broker.DropExchange(t, x)
		if err := p.ch.ExchangeDeclare(x, amqp.ExchangeTopic, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	q, err := p.ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.ch.QueueBind(q.Name, "*.b", to, false, nil); err != nil {
		t.Fatal(err)
	}
	// A cycle is no trap.
	for _, link := range [][2]string{{to, from}, {from, to}} {
		if err := p.ch.ExchangeBind(link[0], "a.#", link[1], false, nil); err != nil {
			t.Fatal(err)
		}
	}
	harness.PublishConfirmed(t, p.other, from, "a.b", []byte("through"))
	harness.PublishConfirmed(t, p.other, from, "a.c", []byte("stopped by the queue's key"))
	harness.PublishConfirmed(t, p.other, from, "x.b", []byte("stopped by the exchange's key"))
	drained(t, p.ch, q.Name, "through")
	if err := p.ch.ExchangeUnbind(to, "a.#", from, false, nil); err != nil {
		t.Fatal(err)
	}
	harness.PublishConfirmed(t, p.other, from, "a.b", []byte("unbound"))
	drained(t, p.ch, q.Name)
}

// exchangeBindRefused: the default exchange has no bindings, both ends must exist; to take off what is not there is no error.
func exchangeBindRefused(t *testing.T, p *pair) {
	const notDefault = "ACCESS_REFUSED - operation not permitted on the default exchange"
	missing := func(name string) string { return "NOT_FOUND - no exchange '" + name + "' in vhost '/'" }
	for _, c := range []struct {
		destination, source string
		code                int
		text                string
	}{
		{"", "amq.direct", amqp.AccessRefused, notDefault},
		{"amq.direct", "", amqp.AccessRefused, notDefault},
		{"none-to", "amq.direct", amqp.NotFound, missing("none-to")},
		{"amq.direct", "none-from", amqp.NotFound, missing("none-from")},
		{"none-to", "none-from", amqp.NotFound, missing("none-from")},
	} {
		closes(t, harness.Channel(t, p.conn).ExchangeBind(c.destination, "k", c.source, false, nil), c.code, c.text)
		err := harness.Channel(t, p.conn).ExchangeUnbind(c.destination, "k", c.source, false, nil)
		if c.code == amqp.NotFound && err != nil {
			t.Errorf("unbind %q from %q: %v", c.destination, c.source, err)
		} else if c.code != amqp.NotFound {
			closes(t, err, c.code, c.text)
		}
	}
	for range 2 { // twice is one binding, and so is its end
		if err := p.ch.ExchangeBind("amq.topic", "twice", "amq.direct", false, amqp.Table{"any": "argument"}); err != nil {
			t.Fatal(err)
		}
	}
	queue := p.bound(t, "amq.topic", "twice", nil)
	p.sends(t, "amq.direct", "twice", text("a"))
	for range 2 {
		if err := p.ch.ExchangeUnbind("amq.topic", "twice", "amq.direct", false, amqp.Table{"any": "argument"}); err != nil {
			t.Fatal(err)
		}
	}
	if !p.sends(t, "amq.direct", "twice", text("b")) {
		t.Error("still bound")
	}
	drained(t, p.ch, queue, "a")
}

// internalExchange gets messages from exchanges only.
func internalExchange(t *testing.T, p *pair) {
	const name = "internal"
	p.broker.DropExchange(t, name)
	if err := p.ch.ExchangeDeclare(name, amqp.ExchangeFanout, true, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	queue := p.bound(t, name, "", nil)
	if err := p.ch.ExchangeBind(name, "to-internal", "amq.direct", false, nil); err != nil {
		t.Fatal(err)
	}
	if p.sends(t, "amq.direct", "to-internal", text("a")) {
		t.Error("not routed through an internal exchange")
	}
	p.exchange(t, "to-internal-rest", amqp.ExchangeDirect, amqp.Table{"alternate-exchange": name})
	if p.sends(t, "to-internal-rest", "k", text("b")) {
		t.Error("not routed to an internal alternate exchange")
	}
	drained(t, p.ch, queue, "a", "b")
	err := p.broker.Channel(t).ExchangeDeclare(name, amqp.ExchangeFanout, true, false, false, false, nil)
	closes(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - inequivalent arg 'internal' for exchange '"+name+"' in vhost '/': received 'false' but current is 'true'")
	ch := p.broker.Channel(t)
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	if err := ch.PublishWithContext(t.Context(), name, "", false, false, text("c")); err != nil {
		t.Fatal(err)
	}
	closes(t, next(t, closed, "channel.close"), amqp.AccessRefused, "ACCESS_REFUSED - cannot publish to internal exchange '"+name+"' in vhost '/'")
}

// autoDeleteExchange ends with the last binding that goes out from it, and one bound to it with its own.
func autoDeleteExchange(t *testing.T, p *pair) {
	names := []string{"auto-1", "auto-2", "auto-end"}
	declare := func() {
		t.Helper()
		for _, name := range names {
			if err := p.ch.ExchangeDeclare(name, amqp.ExchangeFanout, true, name != "auto-end", false, false, nil); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 2 {
			if err := p.ch.ExchangeBind(names[i+1], "", names[i], false, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	there := func(want ...string) {
		t.Helper()
		var got []string
		for _, name := range names {
			if p.broker.Channel(t).ExchangeDeclarePassive(name, amqp.ExchangeFanout, true, false, false, false, nil) == nil {
				got = append(got, name)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("there are %v, want %v", got, want)
		}
	}
	for _, name := range names {
		p.broker.DropExchange(t, name)
	}
	declare()
	there(names...)
	// The first one loses its last binding; the second one is only bound to.
	if err := p.ch.ExchangeUnbind("auto-2", "", "auto-1", false, nil); err != nil {
		t.Fatal(err)
	}
	there("auto-2", "auto-end")
	// With the end goes the binding of the second, with it that of the first.
	declare()
	if err := p.ch.ExchangeDelete("auto-end", false, false); err != nil {
		t.Fatal(err)
	}
	there()
	// A queue's end counts, too, and so does a binding to itself.
	declare()
	queue := p.bound(t, "auto-1", "", nil)
	if err := p.ch.ExchangeUnbind("auto-2", "", "auto-1", false, nil); err != nil {
		t.Fatal(err)
	}
	there(names...)
	if _, err := p.ch.QueueDelete(queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	there("auto-2", "auto-end")
	if err := p.ch.ExchangeBind("auto-2", "", "auto-2", false, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.ch.ExchangeUnbind("auto-end", "", "auto-2", false, nil); err != nil {
		t.Fatal(err)
	}
	there("auto-2", "auto-end")
	if err := p.ch.ExchangeUnbind("auto-2", "", "auto-2", false, nil); err != nil {
		t.Fatal(err)
	}
	there("auto-end")
}

// alternateExchange gets what no binding takes, and hands on what it has no binding for.
func alternateExchange(t *testing.T, p *pair) {
	p.exchange(t, "ae-main", amqp.ExchangeDirect, amqp.Table{"alternate-exchange": "ae-next"})
	p.exchange(t, "ae-next", amqp.ExchangeTopic, amqp.Table{"alternate-exchange": "ae-last"})
	p.exchange(t, "ae-last", amqp.ExchangeFanout, amqp.Table{"alternate-exchange": "ae-main"})
	p.exchange(t, "ae-void", amqp.ExchangeFanout, nil)
	if !p.sends(t, "ae-main", "k", text("round in a circle")) {
		t.Error("routed to nobody knows whom")
	}
	main, second, last := p.bound(t, "ae-main", "main", nil), p.bound(t, "ae-next", "next.*", nil), p.bound(t, "ae-last", "", nil)
	for _, key := range []string{"main", "next.x", "rest"} {
		if p.sends(t, "ae-main", key, text(key)) {
			t.Errorf("key %q is not routed", key)
		}
	}
	// A binding to an exchange takes the message, even if it ends there.
	if err := p.ch.ExchangeBind("ae-void", "void", "ae-main", false, nil); err != nil {
		t.Fatal(err)
	}
	if !p.sends(t, "ae-main", "void", text("void")) {
		t.Error("routed by the alternate exchange although a binding took it")
	}
	drained(t, p.ch, main, "main")
	drained(t, p.ch, second, "next.x")
	drained(t, p.ch, last, "rest")
	// The name may stand for an exchange that comes later.
	if err := p.ch.ExchangeDelete("ae-next", false, false); err != nil {
		t.Fatal(err)
	}
	if !p.sends(t, "ae-main", "next.x", text("missing")) {
		t.Error("routed to a missing exchange")
	}
	p.exchange(t, "ae-next", amqp.ExchangeFanout, nil)
	again := p.bound(t, "ae-next", "", nil)
	if p.sends(t, "ae-main", "next.x", text("back")) {
		t.Error("not routed to the exchange that came back")
	}
	drained(t, p.ch, again, "back")
}

// alternateAndCopies: one key that is taken is enough.
func alternateAndCopies(t *testing.T, p *pair) {
	p.exchange(t, "ae-copies", amqp.ExchangeDirect, amqp.Table{"alternate-exchange": "ae-copies-rest"})
	p.exchange(t, "ae-copies-rest", amqp.ExchangeFanout, nil)
	main, rest := p.bound(t, "ae-copies", "known", nil), p.bound(t, "ae-copies-rest", "", nil)
	for _, keys := range [][2]string{{"known", "unknown"}, {"unknown", "known"}, {"unknown", "other"}} {
		p.sends(t, "ae-copies", keys[0], amqp.Publishing{Headers: amqp.Table{"CC": []any{keys[1]}}, Body: []byte(keys[0])})
	}
	drained(t, p.ch, main, "known", "unknown")
	drained(t, p.ch, rest, "unknown")
}

func alternateDefault(t *testing.T, p *pair) {
	if p.broker.External() {
		t.Skip("RabbitMQ since 3.8 finds no queue in a default exchange that is an alternate one")
	}
	p.exchange(t, "ae-default", amqp.ExchangeDirect, amqp.Table{"alternate-exchange": ""})
	q, err := p.ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.sends(t, "ae-default", q.Name, text("a"))
	drained(t, p.ch, q.Name, "a")
}

func alternateDeclared(t *testing.T, p *pair) {
	const name, plain, key = "ae-declared", "ae-none", "alternate-exchange"
	p.exchange(t, name, amqp.ExchangeFanout, amqp.Table{key: name})
	p.exchange(t, plain, amqp.ExchangeFanout, nil)
	p.broker.DropExchange(t, "ae-new")
	unequal := "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange '%s' in vhost '/': received %s but current is %s"
	for _, c := range []struct {
		name string
		args amqp.Table
		code int
		text string
	}{
		{"ae-new", amqp.Table{key: int32(5)}, amqp.PreconditionFailed, "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'ae-new' in vhost '/'"},
		{"ae-new", amqp.Table{key: nil}, amqp.PreconditionFailed, "PRECONDITION_FAILED - invalid type 'void' for arg 'alternate-exchange' in exchange 'ae-new' in vhost '/'"},
		{"ae-new", amqp.Table{key: []byte("b")}, amqp.PreconditionFailed, "PRECONDITION_FAILED - invalid type 'binary' for arg 'alternate-exchange' in exchange 'ae-new' in vhost '/'"},
		{"amq.new", amqp.Table{key: int32(5)}, amqp.AccessRefused, "ACCESS_REFUSED - exchange name 'amq.new' contains reserved prefix 'amq.*'"},
		{name, nil, amqp.PreconditionFailed, fmt.Sprintf(unequal, name, "none", "the value '"+name+"' of type 'longstr'")},
		{name, amqp.Table{key: "other"}, amqp.PreconditionFailed, fmt.Sprintf(unequal, name, "'other'", "'"+name+"'")},
		{plain, amqp.Table{key: "other"}, amqp.PreconditionFailed, fmt.Sprintf(unequal, plain, "the value 'other' of type 'longstr'", "none")},
	} {
		closes(t, p.broker.Channel(t).ExchangeDeclare(c.name, amqp.ExchangeFanout, true, false, false, false, c.args), c.code, c.text)
	}
	for range 2 { // what nobody knows does not count
		if err := p.ch.ExchangeDeclare(name, amqp.ExchangeFanout, true, false, false, false, amqp.Table{key: name, "x-other": int32(5)}); err != nil {
			t.Error(err)
		}
	}
}

// limited makes a user of these rights and returns a function that opens a channel of theirs.
func (p *pair) limited(t *testing.T, configure, write, read string) func() *amqp.Channel {
	t.Helper()
	if p.broker.External() && p.broker.HTTPURL() == "" {
		t.Skip("users are made through the HTTP API")
	}
	const user = "conformance-limited"
	put := func(path string, body map[string]string) {
		if a := p.broker.API(t, http.MethodPut, path, body); a.Status/100 != 2 {
			t.Fatalf("PUT %s: %d %s", path, a.Status, a.Body)
		}
	}
	put(harness.Path("users", user), map[string]string{"password": "secret", "tags": ""})
	put(harness.Path("permissions", "/", user), map[string]string{"configure": configure, "write": write, "read": read})
	t.Cleanup(func() { _, _ = p.broker.TryAPI(http.MethodDelete, harness.Path("users", user), nil) })
	return func() *amqp.Channel {
		conn, err := harness.Dial("amqp://" + user + ":secret@" + p.broker.AMQP + "/")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return harness.Channel(t, conn)
	}
}

// refused is the text for an access that is not permitted. RabbitMQ 3.10 does not name the access.
func (p *pair) refused(access, what string) string {
	if !p.broker.External() {
		access += " "
	} else {
		access = ""
	}
	return "ACCESS_REFUSED - " + access + "access to " + what + " in vhost '/' refused for user 'conformance-limited'"
}

// alternatePermissions: who declares must be allowed to read the exchange and to write to the alternate one.
func alternatePermissions(t *testing.T, p *pair) {
	open := p.limited(t, "^may-", "^may-write", "^may-read|^may-all")
	for _, c := range []struct{ name, alternate, text string }{
		{"not-mine", "may-write", p.refused("configure", "exchange 'not-mine'")},
		{"may-not", "may-write", p.refused("read", "exchange 'may-not'")},
		{"may-read", "not-write", p.refused("write", "exchange 'not-write'")},
		{"may-read", "", p.refused("write", "exchange 'amq.default'")},
	} {
		err := open().ExchangeDeclare(c.name, amqp.ExchangeFanout, true, false, false, false, amqp.Table{"alternate-exchange": c.alternate})
		closes(t, err, amqp.AccessRefused, c.text)
	}
	p.broker.DropExchange(t, "may-read")
	for range 2 {
		if err := open().ExchangeDeclare("may-read", amqp.ExchangeFanout, true, false, false, false, amqp.Table{"alternate-exchange": "may-write"}); err != nil {
			t.Error(err)
		}
	}
}

// bindPermissions: a binding is written to its destination and read from its source.
func bindPermissions(t *testing.T, p *pair) {
	open := p.limited(t, "", "^amq.topic$", "^amq.direct$")
	for _, c := range []struct{ destination, source, text string }{
		{"amq.direct", "amq.topic", p.refused("write", "exchange 'amq.direct'")},
		{"amq.topic", "amq.fanout", p.refused("read", "exchange 'amq.fanout'")},
		{"none", "amq.direct", p.refused("write", "exchange 'none'")},
		{"", "amq.direct", p.refused("write", "exchange 'amq.default'")},
	} {
		closes(t, open().ExchangeBind(c.destination, "k", c.source, false, nil), amqp.AccessRefused, c.text)
		closes(t, open().ExchangeUnbind(c.destination, "k", c.source, false, nil), amqp.AccessRefused, c.text)
	}
	ch := open()
	if err := ch.ExchangeBind("amq.topic", "limited", "amq.direct", false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeUnbind("amq.topic", "limited", "amq.direct", false, nil); err != nil {
		t.Fatal(err)
	}
}

// passiveDeclaration asks for some permission, whichever.
func passiveDeclaration(t *testing.T, p *pair) {
	if p.broker.External() {
		t.Skip("RabbitMQ before 4.3.1 asks for none, or for configure")
	}
	open := p.limited(t, "^$", "^amq.topic$", "^amq.direct$")
	for _, name := range []string{"amq.topic", "amq.direct"} {
		if err := open().ExchangeDeclarePassive(name, "", true, false, false, false, nil); err != nil {
			t.Error(err)
		}
	}
	closes(t, open().ExchangeDeclarePassive("amq.fanout", "", true, false, false, false, nil), amqp.AccessRefused, p.refused("configure", "exchange 'amq.fanout'"))
	closes(t, open().ExchangeDeclarePassive("none", "", true, false, false, false, nil), amqp.AccessRefused, p.refused("configure", "exchange 'none'"))
}

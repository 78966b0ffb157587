package message

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
)

// properties encodes what set sets.
func properties(set func(*amqp.Properties)) []byte {
	var p amqp.Properties
	if set != nil {
		set(&p)
	}
	return p.Append(nil)
}

func TestEnvelopeRoundTrip(t *testing.T) {
	for _, e := range []Envelope{
		{},
		{Exchange: []byte("x"), RoutingKey: []byte("key"), Properties: []byte{0, 0}, Body: []byte("body")},
		{Exchange: bytes.Repeat([]byte("x"), 255), RoutingKey: bytes.Repeat([]byte("k"), 255), Properties: []byte{0, 0}, Deaths: []byte{}, Body: nil},
		{RoutingKey: []byte("q"), Properties: []byte{0, 0}, Deaths: []byte("deaths"), Body: []byte("body")},
		{RoutingKey: []byte("q"), Properties: []byte{0, 0}, Carriage: []byte("carriage"), Body: []byte("body")},
		{RoutingKey: []byte("q"), Properties: []byte{0, 0}, Deaths: []byte("deaths"), Carriage: []byte("carriage")},
	} {
		encoded := Append(nil, &e)
		got, err := Parse(encoded)
		if err != nil || !bytes.Equal(got.Exchange, e.Exchange) || !bytes.Equal(got.RoutingKey, e.RoutingKey) || !bytes.Equal(got.Properties, e.Properties) ||
			!bytes.Equal(got.Deaths, e.Deaths) || (got.Deaths == nil) != (e.Deaths == nil) || !bytes.Equal(got.Carriage, e.Carriage) || (got.Carriage == nil) != (e.Carriage == nil) || !bytes.Equal(got.Body, e.Body) {
			t.Errorf("%+v came back as %+v (%v)", e, got, err)
		}
		for n := range len(encoded) - len(e.Body) {
			if _, err := Parse(encoded[:n]); err == nil {
				t.Errorf("%+v cut to %d bytes is read", e, n)
			}
		}
	}
}

// died makes the message that is left of one that died in a queue.
func died(t *testing.T, envelope []byte, queue, reason string, millis int64, exchange string, key *string) (*Letter, []byte) {
	t.Helper()
	l, err := DeadLetter(envelope, Death{Queue: queue, Reason: reason, TimeMillis: millis}, exchange, key)
	if err != nil {
		t.Fatal(err)
	}
	return l, Append(nil, &l.Envelope)
}

// shown renders the headers about deaths that a client sees.
func shown(t *testing.T, envelope []byte) string {
	t.Helper()
	e, err := Parse(envelope)
	if err != nil {
		t.Fatal(err)
	}
	p, err := amqp.DecodeProperties(e.Shown())
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, f := range p.Headers {
		parts = append(parts, f.Key+"="+f.Value.String())
	}
	return strings.Join(parts, " ")
}

// TestDeathsAreCounted: one entry per queue and reason, the newest death first, the time that of the first, the first death of all for ever.
func TestDeathsAreCounted(t *testing.T) {
	key := "wait"
	env := Append(nil, &Envelope{Exchange: []byte("orders"), RoutingKey: []byte("new"), Properties: properties(nil), Body: []byte("b")})
	_, env = died(t, env, "main", "rejected", 1_000, "", &key)
	_, env = died(t, env, "wait", "expired", 2_000, "back", nil)
	l, env := died(t, env, "main", "rejected", 3_000, "", &key)
	if n := len(l.Deaths.List); n != 2 {
		t.Fatalf("%d deaths", n)
	}
	got := shown(t, env)
	for _, want := range []string{
		`x-first-death-queue="main"`, `x-first-death-reason="rejected"`, `x-first-death-exchange="orders"`, `x-last-death-queue="main"`, `x-last-death-reason="rejected"`, `x-last-death-exchange="orders"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	newest, older := l.Deaths.List[0], l.Deaths.List[1]
	if newest.Queue != "main" || newest.Count != 2 || newest.TimeMillis != 1_000 || !reflect.DeepEqual(newest.Keys, []string{"new"}) || older.Queue != "wait" || older.Count != 1 {
		t.Errorf("deaths are %+v", l.Deaths.List)
	}
}

// TestDeathHasRabbitsTypes: clients look at the types of the fields.
func TestDeathHasRabbitsTypes(t *testing.T) {
	env := Append(nil, &Envelope{Exchange: []byte("x"), RoutingKey: []byte("k"), Properties: properties(func(p *amqp.Properties) { p.SetExpiration("300") }), Body: nil})
	l, _ := died(t, env, "q", "expired", 5_500, "", nil)
	table, _ := l.Deaths.List[0].show().AsTable()
	got := ""
	for _, f := range table {
		got += fmt.Sprintf("%s:%s ", f.Key, f.Value.Type())
	}
	if want := "count:long reason:longstr queue:longstr time:timestamp exchange:longstr routing-keys:array original-expiration:longstr "; got != want {
		t.Errorf("the table is %s, want %s", got, want)
	}
}

// TestLetterKeepsWhatWasPublished: the expiration goes; with a key of the queue's the header CC goes, too; all else stays byte for byte.
func TestLetterKeepsWhatWasPublished(t *testing.T) {
	headers := amqp.Table{{Key: "CC", Value: amqp.Array(amqp.Longstr("second"))}, {Key: "user", Value: amqp.Int32(7)}}
	published := func(headers amqp.Table, expiration string) []byte {
		return properties(func(p *amqp.Properties) {
			p.SetContentType("text/plain")
			p.SetHeaders(headers)
			p.SetDeliveryMode(2)
			if expiration != "" {
				p.SetExpiration(expiration)
			}
			p.SetMessageID("id")
		})
	}
	env := Append(nil, &Envelope{Exchange: []byte("x"), RoutingKey: []byte("first"), Properties: published(headers, "5"), Body: []byte("body")})

	l, _ := died(t, env, "q", "expired", 1, "dlx", nil)
	if string(l.Envelope.Exchange) != "dlx" || string(l.Envelope.RoutingKey) != "first" || !reflect.DeepEqual(l.Copies, []string{"second"}) || string(l.Envelope.Body) != "body" {
		t.Errorf("letter is %+v", l)
	}
	if !bytes.Equal(l.Envelope.Properties, published(headers, "")) {
		t.Errorf("properties are %x", l.Envelope.Properties)
	}
	if d := l.Deaths.List[0]; d.Expiration != "5" || !reflect.DeepEqual(d.Keys, []string{"first", "second"}) {
		t.Errorf("death is %+v", d)
	}

	key := "given"
	l, _ = died(t, env, "q", "expired", 1, "dlx", &key)
	if string(l.Envelope.RoutingKey) != "given" || l.Copies != nil || !bytes.Equal(l.Envelope.Properties, published(headers[1:], "")) {
		t.Errorf("letter with a key is %+v", l)
	}
}

// TestMovedKeepsEverything: a message that is moved keeps its deaths and gets none; one that goes back has the exchange and key of before its last death. That its expiration is gone stays so.
func TestMovedKeepsEverything(t *testing.T) {
	headers := amqp.Table{{Key: "CC", Value: amqp.Array(amqp.Longstr("second"))}}
	env := Append(nil, &Envelope{Exchange: []byte("orders"), RoutingKey: []byte("new"), Properties: properties(func(p *amqp.Properties) {
		p.SetExpiration("5")
		p.SetHeaders(headers)
		p.SetMessageID("id")
	}), Body: []byte("body")})
	plain, err := Moved(env, true)
	if err != nil || !bytes.Equal(Append(nil, &plain.Envelope), env) {
		t.Errorf("a message without a death changed: %+v (%v)", plain, err)
	}
	_, dead := died(t, env, "main", "expired", 1, "dlx", nil)
	for _, c := range []struct {
		back          bool
		exchange, key string
	}{{false, "dlx", "new"}, {true, "orders", "new"}} {
		l, err := Moved(dead, c.back)
		if err != nil || string(l.Envelope.Exchange) != c.exchange || string(l.Envelope.RoutingKey) != c.key || len(l.Deaths.List) != 1 {
			t.Fatalf("back %t: %+v (%v)", c.back, l, err)
		}
		was, _ := Parse(dead)
		if !bytes.Equal(l.Envelope.Properties, was.Properties) || !bytes.Equal(l.Envelope.Deaths, was.Deaths) || string(l.Envelope.Body) != "body" {
			t.Errorf("back %t: properties, deaths or body changed: %+v", c.back, l)
		}
		if id, _ := l.Properties.MessageID(); string(id) != "id" {
			t.Errorf("back %t: the properties are not scanned", c.back)
		}
	}
	key := "dead"
	_, dead = died(t, env, "main", "rejected", 1, "", &key)
	l, err := Moved(dead, true)
	if err != nil || string(l.Envelope.Exchange) != "orders" || string(l.Envelope.RoutingKey) != "new" {
		t.Fatalf("went back as %+v (%v)", l, err)
	}
	if back, _ := l.Properties.Headers(); !bytes.Equal(back.Table().Append(nil), headers.Append(nil)) { // the key took the place of CC
		t.Errorf("went back with the headers %+v", back.Table())
	}
	if id, _ := l.Properties.MessageID(); string(id) != "id" || l.Properties.Flags().Has(amqp.FlagExpiration) {
		t.Errorf("went back with other properties: %+v", l.Properties)
	}
	if _, err := Moved(env[:3], false); err == nil {
		t.Error("half a message is moved")
	}
}

// TestPublishersDeathsAreContent: what a client sends as x-death is shown as it came and counts for nothing, until the message dies.
func TestPublishersDeathsAreContent(t *testing.T) {
	fake := amqp.Table{{Key: "x-death", Value: amqp.Longstr("mine")}}
	env := Append(nil, &Envelope{RoutingKey: []byte("q"), Properties: properties(func(p *amqp.Properties) { p.SetHeaders(fake) })})
	if got := shown(t, env); got != `x-death="mine"` {
		t.Errorf("shown as %s", got)
	}
	l, env := died(t, env, "q", "expired", 1, "", nil)
	if len(l.Deaths.List) != 1 || strings.Contains(shown(t, env), "mine") {
		t.Errorf("after a death: %+v, shown as %s", l.Deaths, shown(t, env))
	}
}

// TestRelayedIsAsPublished: what goes on from a relay carries no new death, keeps its expiration and knows the keys that its publisher hid.
func TestRelayedIsAsPublished(t *testing.T) {
	headers := amqp.Table{{Key: "CC", Value: amqp.Array(amqp.Longstr("second"))}}
	props := properties(func(p *amqp.Properties) { p.SetHeaders(headers); p.SetExpiration("5") })
	deaths := Deaths{FirstQueue: "q", FirstReason: "expired", List: []Death{{Queue: "q", Reason: "expired", Count: 1}}}
	c := Carriage{Mandatory: true, Keys: []string{"second", "hidden", ""}}
	published := Envelope{Exchange: []byte("x"), RoutingKey: []byte("first"), Properties: props, Deaths: deaths.Append(nil), Carriage: c.Append(nil), Body: []byte("body")}
	l, err := Relayed(Append(nil, &published))
	if err != nil {
		t.Fatal(err)
	}
	published.Carriage = nil
	if !bytes.Equal(Append(nil, &l.Envelope), Append(nil, &published)) || !l.Mandatory || !reflect.DeepEqual(l.Copies, []string{"second", "hidden", ""}) || !reflect.DeepEqual(l.Deaths, deaths) {
		t.Errorf("goes on as %+v", l)
	}
	published.Carriage = []byte{2}
	if _, err := Relayed(Append(nil, &published)); err == nil {
		t.Error("a damaged carriage is read")
	}
	if d, _ := died(t, Append(nil, &Envelope{Properties: props, Carriage: c.Append(nil)}), "q", "expired", 1, "dlx", nil); d.Envelope.Carriage != nil {
		t.Error("a dead letter has the carriage of its publish")
	}
}

func TestCycles(t *testing.T) {
	for _, c := range []struct {
		deaths string // queue:reason, the oldest first
		target string
		cycle  bool
	}{
		{"a:expired", "b", false},
		{"a:expired", "a", true},
		{"a:maxlen b:expired", "a", true},
		{"a:expired b:rejected", "a", false},
		{"a:rejected b:expired", "a", false},
		{"a:rejected a:expired b:expired", "a", true},
		{"b:rejected a:expired", "a", true},
		{"a:delivery_limit", "a", true},
	} {
		var d Deaths
		for _, text := range strings.Fields(c.deaths) {
			queue, reason, _ := strings.Cut(text, ":")
			d.Add(Death{Queue: queue, Reason: reason})
		}
		if got := d.IsCycle(c.target); got != c.cycle {
			t.Errorf("%s to %s: %t", c.deaths, c.target, got)
		}
	}
}

// TestDeathsAreBounded: a message that wanders through ever new queues does not grow for ever.
func TestDeathsAreBounded(t *testing.T) {
	var d Deaths
	for i := range limits.DeathsMax + 5 {
		d.Add(Death{Queue: fmt.Sprint(i), Reason: "expired"})
	}
	if len(d.List) != limits.DeathsMax || d.List[0].Queue != fmt.Sprint(limits.DeathsMax+4) || d.FirstQueue != "0" {
		t.Errorf("%d deaths, newest %s, first %s", len(d.List), d.List[0].Queue, d.FirstQueue)
	}
	again, err := ParseDeaths(d.Append(nil))
	if err != nil || !reflect.DeepEqual(again, d) {
		t.Errorf("came back as %+v (%v)", again, err)
	}
}

func FuzzParse(f *testing.F) {
	d := Deaths{FirstQueue: "q", List: []Death{{Queue: "q", Reason: "expired", Count: 3, Keys: []string{"k"}}}}
	f.Add(Append(nil, &Envelope{Exchange: []byte("x"), RoutingKey: []byte("k"), Properties: []byte{0, 0}, Deaths: d.Append(nil), Body: []byte("b")}))
	f.Fuzz(func(t *testing.T, src []byte) {
		e, err := Parse(src)
		if err != nil {
			return
		}
		if again := Append(nil, &e); !bytes.Equal(again, src) {
			t.Errorf("%x encoded anew is %x", src, again)
		}
		_ = e.Shown()
		if l, err := Relayed(src); err == nil && (l.Envelope.Carriage != nil || !bytes.Equal(l.Envelope.Properties, e.Properties) || !bytes.Equal(l.Envelope.Deaths, e.Deaths)) {
			t.Errorf("%x goes on as %+v", src, l.Envelope)
		}
		key := "key"
		if l, err := DeadLetter(src, Death{Queue: "q", Reason: "expired"}, "x", &key); err == nil {
			if _, err := DeadLetter(Append(nil, &l.Envelope), Death{Queue: "q", Reason: "rejected"}, "y", nil); err != nil {
				t.Errorf("a dead letter cannot die again: %v", err)
			}
		}
	})
}

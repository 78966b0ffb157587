package conformance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

// This file holds what users have reported of brokers, on queues of every type.

// TestChannelWideQos: a prefetch with global is shared by the consumers of a channel, whatever the type of the queue; it is raised and lowered while messages are
// unacknowledged.
func TestChannelWideQos(t *testing.T) {
	t.Parallel()
	b := harness.StartOrExternal(t, harness.Options{})
	for name, before := range map[string]bool{"qos before consume": true, "qos after consume": false} {
		t.Run(name, func(t *testing.T) {
			each(t, b, func(t *testing.T, p *pair, queue string) {
				p.unlike(t, queue, "quorum queues refuse a prefetch of the channel")
				channelWide(t, p, queue, before)
			})
		})
	}
}

func channelWide(t *testing.T, p *pair, queue string, before bool) {
	qos := func(n int) {
		t.Helper()
		if err := p.ch.Qos(n, 0, true); err != nil {
			t.Fatal(err)
		}
	}
	if before {
		qos(4)
	}
	var from [2]<-chan amqp.Delivery
	for i := range from {
		from[i] = consume(t, p.ch, queue, fmt.Sprint("tag", i), false)
	}
	if !before {
		qos(4)
	}
	var bodies []string
	for i := range 20 {
		bodies = append(bodies, fmt.Sprintf("%02d", i))
	}
	p.publish(t, queue, bodies...)
	var got []amqp.Delivery
	more := func(n int) {
		t.Helper()
		for range n {
			select {
			case d := <-from[0]:
				got = append(got, d)
			case d := <-from[1]:
				got = append(got, d)
			case <-t.Context().Done():
			}
		}
		for _, c := range from {
			quiet(t, p.ch, queue, c)
		}
	}
	more(4)
	qos(6)
	more(2)
	qos(2)
	for range 4 { // six are unacknowledged; two are left when four are acknowledged
		if err := got[0].Ack(false); err != nil {
			t.Fatal(err)
		}
		got = got[1:]
		more(0)
	}
	if err := got[0].Ack(false); err != nil {
		t.Fatal(err)
	}
	got = got[1:]
	more(1)
}

// TestLegacyDeclare: what clients of older versions declare never closes the connection.
func TestLegacyDeclare(t *testing.T) {
	b := harness.Start(t, harness.Options{})
	b.AwaitHTTP(t)
	conn := b.Connect(t)
	ch := harness.Channel(t, conn)
	declare := func(name string, durable, autoDelete, exclusive bool, args amqp.Table) amqp.Queue {
		t.Helper()
		q, err := ch.QueueDeclare(name, durable, autoDelete, exclusive, false, args)
		if err != nil {
			t.Fatalf("declare %q: %v", name, err)
		}
		return q
	}
	declare("legacy-named", false, true, false, nil)
	served := declare("", false, true, false, nil)
	for _, name := range []string{"legacy-named", served.Name} {
		harness.PublishConfirmed(t, b.Channel(t), "", name, []byte("x"))
		other := b.Channel(t)
		receive(t, consume(t, other, name, "tag", true), "x")
		if err := other.Cancel("tag", false); err != nil {
			t.Fatal(err)
		}
		_, err := other.QueueDeclarePassive(name, false, true, false, false, nil)
		closes(t, err, amqp.NotFound, "NOT_FOUND - no queue '"+name+"'")
	}
	quorum := amqp.Table{amqp.QueueTypeArg: harness.Quorum}
	declare("legacy-exclusive", true, false, true, quorum)
	declare("legacy-lazy", true, false, false, amqp.Table{amqp.QueueTypeArg: harness.Quorum, "x-queue-mode": "lazy"})
	declare("legacy-version", true, false, false, amqp.Table{"x-queue-version": int32(1), "x-queue-master-locator": "min-masters"})
	declare("legacy-foo", true, false, false, amqp.Table{"x-foo": "one"})
	declare("legacy-foo", true, false, false, amqp.Table{"x-foo": "two"})
	declare("legacy-foo", true, false, false, nil)

	b.API(t, http.MethodPut, harness.Path("vhosts", "legacy"), map[string]string{"default_queue_type": "quorum"})
	b.API(t, http.MethodPut, harness.Path("permissions", "legacy", "guest"), map[string]string{"configure": ".*", "write": ".*", "read": ".*"})
	other, err := harness.Dial(b.AMQPURL() + "legacy")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	ch = harness.Channel(t, other)
	for _, args := range []amqp.Table{nil, quorum, {amqp.QueueTypeArg: harness.Classic}, nil} {
		declare("typed", true, false, false, args)
	}
	if conn.IsClosed() || other.IsClosed() {
		t.Error("a declaration closed its connection")
	}
}

// TestSmallFrames: a message whose body or header is longer than a client's frames comes to that client in frames that it can read.
func TestSmallFrames(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	for _, kind := range []string{harness.Classic, harness.Quorum} {
		queue := "small-frames-" + kind
		b.FreshQueue(t, queue, kind)
		smallFrames(t, b, queue)
	}
}

func smallFrames(t *testing.T, b *harness.Broker, queue string) {
	t.Helper()
	if b.External() {
		t.Skip("RabbitMQ sends a header that is longer than the client's frames")
	}
	const frameMax = 4096
	body := bytes.Repeat([]byte("x"), 3*frameMax)
	harness.PublishConfirmed(t, b.Channel(t), "", queue, body)
	login := rawamqp.Guest
	login.FrameMax = frameMax
	c, err := rawamqp.Open(b.AMQP, login)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.OpenChannel(1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(rawamqp.Method(60, 70).Short(0).ShortString(queue).Octet(1).Frame(1), 60, 71); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for left := len(body); left > 0; {
		f, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		if size := len(f.Payload) + 8; size > frameMax {
			t.Errorf("a frame of %d octets", size)
		}
		if f.Type == rawamqp.TypeBody {
			got, left = append(got, f.Payload...), left-len(f.Payload)
		}
	}
	if !bytes.Equal(got, body) {
		t.Error("the body is not what was sent")
	}
	// 200 deaths: a header that is as long as several of the client's frames, and must be one. It comes without.
	deaths := make([]any, 200)
	for i := range deaths {
		deaths[i] = amqp.Table{"count": int64(i), "reason": "rejected", "queue": fmt.Sprintf("queue-%d", i), "exchange": "", "routing-keys": []any{"key"}}
	}
	ch := b.Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, false, false, amqp.Publishing{Headers: amqp.Table{"x-death": deaths}, Body: []byte("y")})
	if err != nil {
		t.Fatal(err)
	}
	confirm.Wait()
	if err := c.Send(rawamqp.Method(60, 70).Short(0).ShortString(queue).Octet(0).Frame(1)); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		if size := len(f.Payload) + 8; size > frameMax {
			t.Fatalf("a frame of %d octets to a client that takes %d", size, frameMax)
		}
		if f.Type == rawamqp.TypeBody {
			break
		}
	}
	c.Close()
	b.AwaitCount(t, queue, 1) // it is still there for others
}

// TestTruncatedTable: a table that ends too early ends its connection and no more.
func TestTruncatedTable(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	for _, cut := range []string{"\x00\x00\x00\x05\x01a", "\x00\x00\x00\x06\x01aS\x00\x00\x00", "\x00\x00\x00\x0a\x01aF\x00\x00\x00\xff\x01b", "\xff\xff\xff\xff"} {
		c, err := rawamqp.Open(b.AMQP, rawamqp.Guest)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.OpenChannel(1); err != nil {
			t.Fatal(err)
		}
		f := rawamqp.Method(50, 10).Short(0).ShortString("truncated").Octet(0).Raw(cut).Frame(1)
		if err := c.Send(f); err != nil {
			t.Fatal(err)
		}
		closed, err := c.AwaitClose()
		if errors.Is(err, rawamqp.ErrSilent) && b.External() {
			continue
		}
		if err != nil || closed.Channel != 0 || closed.Code != amqp.FrameError && closed.Code != amqp.SyntaxError {
			t.Errorf("table %q: %v, %v, want 501 or 502", cut, closed, err)
		}
		c.Close()
	}
	harness.Channel(t, b.Connect(t))
}

// TestReplyTo: what is asked with amqp.rabbitmq.reply-to is answered on the channel that asked; who asks without listening is told; what comes too late or for
// nobody is dropped, or returned if it is mandatory.
func TestReplyTo(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	each(t, b, func(t *testing.T, p *pair, queue string) {
		const pseudo = "amq.rabbitmq.reply-to"
		ask := amqp.Publishing{ReplyTo: pseudo, Body: []byte("ask")}
		closed := p.ch.NotifyClose(make(chan *amqp.Error, 1))
		if err := p.ch.PublishWithContext(t.Context(), "", queue, false, false, ask); err != nil {
			t.Fatal(err)
		}
		closes(t, next(t, closed, "channel.close"), amqp.PreconditionFailed, "PRECONDITION_FAILED - fast reply consumer does not exist")
		_, err := harness.Channel(t, p.conn).Consume(pseudo, "", false, false, false, false, nil)
		closes(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - reply consumer cannot acknowledge")

		ch := harness.Channel(t, p.conn)
		answers := consume(t, ch, pseudo, "", true)
		if err := ch.PublishWithContext(t.Context(), "", queue, false, false, ask); err != nil {
			t.Fatal(err)
		}
		server := consume(t, p.other, queue, "", true)
		asked := harness.Receive(t, server)
		if !strings.HasPrefix(asked.ReplyTo, pseudo+".") {
			t.Fatalf("reply-to is %q", asked.ReplyTo)
		}
		answer := func(to string, mandatory bool) {
			t.Helper()
			if err := p.other.PublishWithContext(t.Context(), "", to, mandatory, false, amqp.Publishing{Body: []byte("answer")}); err != nil {
				t.Fatal(err)
			}
		}
		answer(asked.ReplyTo, false)
		receive(t, answers, "answer")
		if err := ch.Close(); err != nil {
			t.Fatal(err)
		}
		if p.broker.External() {
			t.Skip("RabbitMQ 3.10 closes the connection when an answer comes too late")
		}
		returns := p.other.NotifyReturn(make(chan amqp.Return, 2))
		for _, to := range []string{asked.ReplyTo, pseudo + ".invented", pseudo + ".g1h2AA5yZXBseUAxMjM0NTY3OAAAAAAAAAAAAA==.invented"} {
			answer(to, false)
		}
		answer(pseudo+".invented", true)
		if r := next(t, returns, "return"); r.ReplyCode != amqp.NoRoute {
			t.Errorf("returned with %d %s", r.ReplyCode, r.ReplyText)
		}
		if _, err := p.other.QueueDeclarePassive(queue, false, false, false, false, nil); err != nil {
			t.Errorf("the channel after late answers: %v", err)
		}
	})
}

// TestReturnBeforeAck: each unroutable message comes back before its confirm, among a thousand.
func TestReturnBeforeAck(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	each(t, b, func(t *testing.T, p *pair, queue string) {
		const n = 1000
		c, err := rawamqp.Open(p.broker.AMQP, rawamqp.Guest)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.OpenChannel(1); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Call(rawamqp.Method(85, 10).Octet(0).Frame(1), 85, 11); err != nil {
			t.Fatal(err)
		}
		go func() {
			for i := 1; i <= n; i++ {
				f := rawamqp.Publish(1, queue)
				if i%3 == 0 {
					f = rawamqp.Method(60, 40).Short(0).ShortString("").ShortString("nowhere").Octet(1).Frame(1)
				}
				body := rawamqp.Frame{Type: rawamqp.TypeBody, Channel: 1, Payload: binary.BigEndian.AppendUint64(nil, uint64(i))}
				if c.Send(f, rawamqp.BodyHeader(1, 8), body) != nil {
					return
				}
			}
		}()
		returned, confirmed := map[uint64]bool{}, map[uint64]bool{}
		for lowest := uint64(1); lowest <= n; { // the first that is not confirmed
			f, err := c.Read()
			if err != nil {
				t.Fatal(err)
			}
			class, method := f.Method()
			switch {
			case f.Type == rawamqp.TypeBody:
				returned[binary.BigEndian.Uint64(f.Payload)] = true
			case class == 60 && method == 80:
				tag := binary.BigEndian.Uint64(f.Payload[4:])
				first := tag
				if f.Payload[12] == 1 {
					first = lowest
				}
				for i := first; i <= tag; i++ {
					if i%3 == 0 && !returned[i] {
						t.Fatalf("message %d is confirmed before it is returned", i)
					}
					confirmed[i] = true
				}
				for confirmed[lowest] {
					lowest++
				}
			case class == 60 && method == 120:
				t.Fatal("a publish was refused")
			}
		}
		if len(returned) != n/3 {
			t.Errorf("%d messages came back, want %d", len(returned), n/3)
		}
	})
}

// TestTagsOfAChannel: an unknown tag closes its channel and no other; tag 0 with multiple is everything.
func TestTagsOfAChannel(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	each(t, b, func(t *testing.T, p *pair, queue string) {
		p.publish(t, queue, "1", "2", "3", "4", "5", "6")
		get(t, p.ch, queue, "1", "2", "3", "4", "5")
		live := harness.Channel(t, p.conn)
		foreign := harness.Channel(t, p.conn)
		closed := foreign.NotifyClose(make(chan *amqp.Error, 1))
		if err := foreign.Ack(3, false); err != nil { // of another channel
			t.Fatal(err)
		}
		closes(t, next(t, closed, "channel.close"), amqp.PreconditionFailed, "PRECONDITION_FAILED - unknown delivery tag 3")
		closed = p.ch.NotifyClose(make(chan *amqp.Error, 1))
		for range 2 {
			if err := p.ch.Ack(5, false); err != nil {
				t.Fatal(err)
			}
		}
		closes(t, next(t, closed, "channel.close"), amqp.PreconditionFailed, "PRECONDITION_FAILED - unknown delivery tag 5")
		p.broker.AwaitCount(t, queue, 5)
		var got []string
		for range 5 {
			d, ok, err := live.Get(queue, false)
			if err != nil || !ok {
				t.Fatalf("get: %t, %v", ok, err)
			}
			got = append(got, shown(d))
		}
		slices.Sort(got)
		if want := []string{"1*", "2*", "3*", "4*", "6"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if err := live.Nack(0, true, false); err != nil {
			t.Fatal(err)
		}
		drained(t, live, queue)
		if err := live.Close(); err != nil {
			t.Fatal(err)
		}
		drained(t, p.other, queue)
	})
}

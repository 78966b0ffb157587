package management

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// hold puts messages into a replica.
func (h *fakeHost) hold(id meta.QueueID, m heldMessages) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = make(map[meta.QueueID]*heldMessages)
	}
	h.held[id] = &m
}

func held(p queue.Peeked, key, body string) heldMessage {
	var properties amqp.Properties
	properties.SetHeaders(amqp.Table{{Key: "n", Value: amqp.Longstr(key)}})
	return heldMessage{p, broker.AppendEnvelope(nil, &broker.Envelope{Exchange: []byte("x"), RoutingKey: []byte(key), Properties: properties.Append(nil), Body: []byte(body)})}
}

// peeked is what a look answers.
type peeked struct {
	Items []struct {
		Position int
		Payload  string
	}
	Total, Applied int
}

func (f *fixture) peek(body string) (p peeked) {
	f.t.Helper()
	w := f.do("guest", http.MethodPost, "/api/queues/a/q/peek", body)
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 200 {
		f.t.Fatalf("%d %s", w.Code, w.Body)
	}
	return p
}

func TestPeek(t *testing.T) {
	f := newFixture(t)
	f.host.hold(f.declare("a", "q"), heldMessages{
		ready: []heldMessage{held(queue.Peeked{}, "k1", "one"), held(queue.Peeked{Redelivered: true, DeliveryCount: 2}, "k2", "\xff\x00"), held(queue.Peeked{}, "k3", "größer")},
		unacked: []heldMessage{
			held(queue.Peeked{Node: 1, BootCounter: 1, Session: 5, Consumer: 2}, "k4", "four"), held(queue.Peeked{Node: 1, BootCounter: 1, Session: 6}, "k5", ""),
			held(queue.Peeked{Node: 1, BootCounter: 0, Session: 5, Consumer: 2}, "k6", ""), held(queue.Peeked{}, "k7", ""),
		},
	})
	f.broker.mu.Lock()
	f.broker.consumers = []broker.Consumer{{Tag: "tag", Queue: "q", VHost: "a", Connection: "c", Number: 3, Session: 5, ID: 2}, {Tag: "other", Queue: "r", VHost: "a", Session: 6}}
	f.broker.channels = []broker.Channel{{Connection: "c", Number: 4, Session: 6}}
	f.broker.mu.Unlock()
	properties := func(n string) string { return `"properties":{"headers":{"n":"` + n + `"}}` }
	for _, c := range []struct{ method, path, body, want string }{
		{http.MethodPost, "/api/queues/a/q/peek", `{"count":2}`, `{"items":[{"position":0,"state":"ready","redelivered":false,"delivery_count":0,"exchange":"x","routing_key":"k1",` + properties("k1") +
			`,"payload":"one","payload_encoding":"string","payload_bytes":3,"truncated":false,"enqueued_at":null},{"position":1,"state":"ready","redelivered":true,"delivery_count":2,"exchange":"x",` +
			`"routing_key":"k2",` + properties("k2") + `,"payload":"/wA=","payload_encoding":"base64","payload_bytes":2,"truncated":false,"enqueued_at":null}],"total":3,"applied":77}`},
		{http.MethodPost, "/api/queues/a/q/peek?columns=items.payload,items.truncated,items.position", `{"offset":2,"truncate":3}`, `{"items":[{"position":2,"payload":"gr","truncated":true}]}`},
		{http.MethodPost, "/api/queues/a/q/peek?columns=items.payload", `{"offset":2,"truncate":3,"encoding":"base64"}`, `{"items":[{"payload":"Z3LD"}]}`},
		{http.MethodPost, "/api/queues/a/q/peek", `{"offset":3}`, `{"items":[],"total":3,"applied":77}`},
		{http.MethodPost, "/api/queues/a/q/peek?columns=items.state,items.consumer_tag,items.channel,total", `{"state":"unacked"}`, `{"items":[{"state":"unacked","consumer_tag":"tag","channel":"c (3)"},` +
			`{"state":"unacked","consumer_tag":"","channel":"c (4)"},{"state":"unacked","consumer_tag":null,"channel":null},{"state":"unacked","consumer_tag":null,"channel":null}],"total":4}`},
		{http.MethodGet, "/api/queues/a/q/unacked?offset=1&count=1&columns=items.position", "", `{"items":[{"position":1}]}`},
	} {
		w := f.do("guest", c.method, c.path, c.body)
		if w.Code != 200 || w.Body.String() != c.want {
			t.Errorf("%s %s %s: %d\n%s\nwant\n%s", c.method, c.path, c.body, w.Code, w.Body, c.want)
		}
	}
}

func TestPeekRefusals(t *testing.T) {
	f := newFixture(t)
	f.declare("a", "q")
	f.declare("a", "okay")
	for _, c := range []struct {
		user, path, body string
		status           int
		part             string
	}{
		{"guest", "/api/queues/a/nope/peek", "", 404, "Not Found"},
		{"guest", "/api/queues/nope/q/peek", "", 404, "vhost_not_found"},
		{"mon", "/api/queues/a/q/peek", "", 401, "User not authorised to access virtual host"},
		{"mgt", "/api/queues/a/q/peek", "", 401, "ACCESS_REFUSED - read access to queue 'q' in vhost 'a' refused for user 'mgt'"},
		{"guest", "/api/queues/a/q/peek", `{"state":"gone"}`, 400, "Unsupported state"},
		{"guest", "/api/queues/a/q/peek", `{"count":0}`, 400, "count must be at least 1"},
		{"guest", "/api/queues/a/q/peek", `{"offset":-1}`, 400, "offset must be at least 0"},
		{"guest", "/api/queues/a/q/peek", `{"truncate":"x"}`, 400, `["not_integer","x"]`},
		{"guest", "/api/queues/a/q/peek", `{"encoding":"rot13"}`, 400, "Unsupported encoding"},
		{"guest", "/api/queues/a/q/peek", ``, 503, "queue 'q' in vhost 'a' has no replica that answers now"},
	} {
		f.want(f.do(c.user, http.MethodPost, c.path, c.body), c.status, c.part)
	}
	f.want(f.do("guest", http.MethodGet, "/api/queues/a/q/unacked?count=x", ""), 400, `["not_integer","x"]`)
}

// TestPeekIsBounded: a thousand messages, eight megabytes; what is missing comes with the next look.
func TestPeekIsBounded(t *testing.T) {
	f := newFixture(t)
	id := f.declare("a", "q")
	var m heldMessages
	for i := range limits.PeekMessagesMax + 10 {
		m.ready = append(m.ready, held(queue.Peeked{}, fmt.Sprint(i), "body"))
	}
	f.host.hold(id, m)
	if p := f.peek(`{"count":100000}`); len(p.Items) != limits.PeekMessagesMax || p.Total != len(m.ready) {
		t.Error(len(p.Items), p.Total)
	}
	if p := f.peek(""); len(p.Items) != peekCountDefault {
		t.Error("without a count:", len(p.Items))
	}
	large := strings.Repeat("x", 3<<20)
	f.host.hold(id, heldMessages{ready: []heldMessage{held(queue.Peeked{}, "", large), held(queue.Peeked{}, "", large), held(queue.Peeked{}, "", large), held(queue.Peeked{}, "", large)}})
	p := f.peek(`{"truncate":100000000}`)
	if len(p.Items) != 2 {
		t.Fatal("in one look:", len(p.Items))
	}
	if p = f.peek(`{"truncate":100000000,"offset":2}`); len(p.Items) != 2 || p.Items[0].Position != 2 {
		t.Error("in the next:", len(p.Items))
	}
	f.host.hold(id, heldMessages{ready: []heldMessage{held(queue.Peeked{}, "", strings.Repeat("x", 20<<20))}})
	if p = f.peek(`{"truncate":100000000}`); len(p.Items) != 1 || len(p.Items[0].Payload) != limits.PeekBytesMax {
		t.Error("a large message is not shown")
	}
}

// TestPeekAsksTheLeader: whatever node is asked, the messages are those of the replica that leads, or of another one while that does not answer.
func TestPeekAsksTheLeader(t *testing.T) {
	f := newFixture(t)
	two, three := f.join("rabbit@two"), f.join("rabbit@three")
	id := f.declare("a", "q", 2, 3)
	two.host.hold(id, heldMessages{ready: []heldMessage{held(queue.Peeked{}, "", "leader's")}})
	three.host.hold(id, heldMessages{ready: []heldMessage{held(queue.Peeked{}, "", "follower's")}})
	two.host.set("a", "q", func(*quorum.QueueStatus) {})
	two.s.sampler.tick(time.Now())
	f.s.sampler.tick(time.Now())
	three.s.sampler.tick(time.Now())
	for _, node := range []*fixture{f, two, three} {
		if p := node.peek(""); len(p.Items) != 1 || p.Items[0].Payload != "leader's" || p.Applied != 77 {
			t.Errorf("node %d: %+v", node.host.id, p)
		}
	}
	f.host.mark(f.host.down, 2, true)
	if p := f.peek(""); len(p.Items) != 1 || p.Items[0].Payload != "follower's" {
		t.Errorf("without the leader: %+v", p)
	}
}

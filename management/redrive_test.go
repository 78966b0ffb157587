package management

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/message"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// letter is a message that died in some queue for a reason; in none if that is empty.
func letter(seq queue.Seq, priority uint8, key, id, died, reason string, millis int64) heldMessage {
	var properties amqp.Properties
	if id != "" {
		properties.SetMessageID(id)
	}
	e := broker.Envelope{Exchange: []byte("x"), RoutingKey: []byte(key), Properties: properties.Append(nil), Body: []byte("body")}
	if died == "" {
		return heldMessage{queue.Peeked{Seq: seq, Place: seq, Priority: priority}, broker.AppendEnvelope(nil, &e)}
	}
	l, err := message.DeadLetter(broker.AppendEnvelope(nil, &e), message.Death{Queue: died, Reason: reason, TimeMillis: millis}, "dlx", nil)
	if err != nil {
		panic(err)
	}
	return heldMessage{queue.Peeked{Seq: seq, Place: seq, Priority: priority}, message.Append(nil, &l.Envelope)}
}

// told is what the API says of a redrive.
type told struct {
	ID, State, Reason                string
	Scanned, Matched, Moved, Skipped int
	Targets, Left                    []struct {
		Queue, Why string
		Messages   int
	}
	Pending       int
	PendingReason string `json:"pending_reason"`
}

func (x *told) String() string {
	s := fmt.Sprintf("%s %q scanned=%d matched=%d moved=%d skipped=%d", x.State, x.Reason, x.Scanned, x.Matched, x.Moved, x.Skipped)
	for _, t := range x.Targets {
		s += fmt.Sprintf(" %s:%d", t.Queue, t.Messages)
	}
	for _, t := range x.Left {
		s += fmt.Sprintf(" %s(%s):%d", t.Queue, t.Why, t.Messages)
	}
	return s
}

func (f *fixture) redrive(user, path, body string) *told {
	f.t.Helper()
	w := f.do(user, http.MethodPost, path, body)
	x := new(told)
	if err := json.Unmarshal(w.Body.Bytes(), x); err != nil || w.Code != 200 {
		f.t.Fatalf("%s %s: %d %s", path, body, w.Code, w.Body)
	}
	return x
}

// takes has the fake broker move messages out of a fake queue.
func (f *fixture) takes(id meta.QueueID) {
	f.broker.move = func(m *broker.Move) (n uint64, err error) {
		f.host.mu.Lock()
		defer f.host.mu.Unlock()
		h := f.host.held[id]
		h.ready = slices.DeleteFunc(slices.Clone(h.ready), func(x heldMessage) bool {
			_, found := slices.BinarySearch(m.Seqs, x.Seq)
			if found {
				n++
			}
			return found
		})
		return n, nil
	}
}

func TestRedrive(t *testing.T) {
	f := newFixture(t)
	dead := f.declare("a", "dead")
	for _, name := range []string{"orders", "mail", "okay"} {
		f.declare("a", name)
	}
	now := time.Now().UnixMilli()
	ready := []heldMessage{
		letter(1, 0, "k1", "m1", "orders", "rejected", now-7200_000), letter(2, 0, "k2", "m2", "orders", "expired", now-10_000), letter(3, 1, "k1", "m3", "mail", "rejected", now-10_000),
		letter(4, 0, "k1", "m4", "", "", 0), letter(5, 0, "k1", "m5", "gone", "rejected", now), letter(6, 0, "k1", "m6", "dead", "expired", now), {Peeked: queue.Peeked{Seq: 7, Place: 7}},
	}
	for _, c := range []struct{ path, body, want, moved string }{
		{"redrive", `{"dry_run":true}`, `done "" scanned=7 matched=7 moved=3 skipped=4 mail:1 orders:2 (no_death):1 gone(queue_gone):1 dead(same_queue):1 (unreadable):1`, ``},
		{"redrive", `{}`, `done "" scanned=7 matched=7 moved=3 skipped=4 mail:1 orders:2 (no_death):1 gone(queue_gone):1 dead(same_queue):1 (unreadable):1`,
			"dead -> mail back=true [3]; dead -> orders back=true [1 2]"},
		{"redrive", `{"from":"orders"}`, `done "" scanned=7 matched=3 moved=2 skipped=1 orders:2 (unreadable):1`, "dead -> orders back=true [1 2]"},
		{"redrive", `{"reason":"rejected","routing_key":"k1"}`, `done "" scanned=7 matched=4 moved=2 skipped=2 mail:1 orders:1 gone(queue_gone):1 (unreadable):1`,
			"dead -> mail back=true [3]; dead -> orders back=true [1]"},
		{"redrive", `{"routing_key":"","to":"okay"}`, `done "" scanned=7 matched=1 moved=0 skipped=1 (unreadable):1`, ""},
		{"redrive", `{"message_ids":["m2","m4"],"to":"okay"}`, `done "" scanned=7 matched=3 moved=2 skipped=1 okay:2 (unreadable):1`, "dead -> okay back=true [2 4]"},
		{"redrive", `{"older_than":3600}`, `done "" scanned=7 matched=2 moved=1 skipped=1 orders:1 (unreadable):1`, "dead -> orders back=true [1]"},
		{"redrive", `{"limit":2}`, `done "" scanned=7 matched=6 moved=2 skipped=4 mail:1 orders:1 (no_death):1 gone(queue_gone):1 dead(same_queue):1 (unreadable):1`,
			"dead -> mail back=true [3]; dead -> orders back=true [1]"},
		{"move", `{"to":"okay"}`, `done "" scanned=7 matched=7 moved=6 skipped=1 okay:6 (unreadable):1`, "dead -> okay back=false [1 2 3 4 5 6]"},
		{"move", `{"to":"okay","limit":1}`, `done "" scanned=7 matched=2 moved=1 skipped=1 okay:1 (unreadable):1`, "dead -> okay back=false [3]"},
	} {
		f.host.hold(dead, heldMessages{ready: slices.Clone(ready), next: 8})
		f.takes(dead)
		f.broker.moved = nil
		x := f.redrive("guest", "/api/queues/a/dead/"+c.path, c.body)
		if x.String() != c.want {
			t.Errorf("%s %s:\n%s\nwant\n%s", c.path, c.body, x, c.want)
		}
		if moved := strings.ReplaceAll(strings.Join(f.broker.moved, "; "), "guest a ", ""); moved != c.moved {
			t.Errorf("%s %s moved\n%s\nwant\n%s", c.path, c.body, moved, c.moved)
		}
	}
}

func TestRedriveRefusals(t *testing.T) {
	f := newFixture(t)
	dead := f.declare("a", "okdead")
	f.declare("a", "ok")
	f.declare("a", "secret")
	f.host.hold(dead, heldMessages{ready: []heldMessage{letter(1, 0, "", "", "secret", "rejected", 1), letter(2, 0, "", "", "ok", "rejected", 1)}, next: 3})
	f.takes(dead)
	for _, c := range []struct {
		user, path, body string
		status           int
		part             string
	}{
		{"guest", "/api/queues/a/nope/redrive", "", 404, "Not Found"},
		{"mon", "/api/queues/a/okdead/redrive", "", 401, "User not authorised to access virtual host"},
		{"mgt", "/api/queues/a/secret/redrive", "", 401, "read access to queue 'secret' in vhost 'a' refused for user 'mgt'"},
		{"mgt", "/api/queues/a/okdead/redrive", `{"to":"secret"}`, 401, "write access to queue 'secret' in vhost 'a' refused for user 'mgt'"},
		{"guest", "/api/queues/a/okdead/redrive", `{"to":"nope"}`, 400, "no queue 'nope' in vhost 'a'"},
		{"guest", "/api/queues/a/okdead/redrive", `{"to":"okdead"}`, 400, "to is the queue itself"},
		{"guest", "/api/queues/a/okdead/redrive", `{"reason":"bored"}`, 400, "unknown reason bored"},
		{"guest", "/api/queues/a/okdead/redrive", `{"limit":0}`, 400, "limit must be at least 1"},
		{"guest", "/api/queues/a/okdead/redrive", `{"message_ids":"x"}`, 400, "message_ids must be a list"},
		{"guest", "/api/queues/a/okdead/redrive", `{"message_ids":[]}`, 400, "message_ids must be a list of 1 to"},
		{"guest", "/api/queues/a/okdead/move", `{}`, 400, "key_missing,to"},
		{"guest", "/api/queues/a/okdead/move", `{"to":""}`, 400, "to is empty"},
		{"guest", "/api/queues/a/okdead/redrive", `{"to":""}`, 400, "to is empty"},
		{"guest", "/api/queues/a/okdead/redrive", `{"from":""}`, 400, "from is empty"},
		{"guest", "/api/queues/a/okdead/redrive", `{"reason":""}`, 400, "reason is empty"},
		{"guest", "/api/redrives/1-1-99", "", 404, "Not Found"},
	} {
		method := http.MethodPost
		if strings.Contains(c.path, "redrives") {
			method = http.MethodGet
		}
		f.want(f.do(c.user, method, c.path, c.body), c.status, c.part)
	}
	if x := f.redrive("mgt", "/api/queues/a/okdead/redrive", ""); x.String() != `done "" scanned=2 matched=2 moved=1 skipped=1 ok:1 secret(no_permission):1` {
		t.Error(x)
	}
}

// TestRedriveGoesThroughOnce: several pages and priorities; what fails again and comes back while the redrive runs does not go round, and what a consumer takes meanwhile is passed over.
func TestRedriveGoesThroughOnce(t *testing.T) {
	f := newFixture(t)
	dead := f.declare("a", "dead")
	f.declare("a", "orders")
	const many = 2*limits.RedrivePageMessages + 70
	h := heldMessages{next: many + 1}
	for seq := queue.Seq(1); seq <= many; seq++ {
		h.ready = append(h.ready, letter(seq, uint8(seq%3), "", "", "orders", "rejected", 1))
	}
	f.host.hold(dead, h)
	f.takes(dead)
	take, back, lost := f.broker.move, queue.Seq(many), false
	f.broker.move = func(m *broker.Move) (uint64, error) {
		n, err := take(m)
		f.host.mu.Lock()
		defer f.host.mu.Unlock()
		held := f.host.held[dead]
		for range m.Seqs { // each fails at once
			back++
			held.ready = append(held.ready, letter(back, 2, "", "", "orders", "rejected", 1))
		}
		if !lost {
			lost = true
			held.ready = held.ready[1:]
		}
		return n, err
	}
	x := f.redrive("guest", "/api/queues/a/dead/redrive", "")
	if x.State != redriveDone || x.Moved != many-1 {
		t.Error(x)
	}
}

// TestRedriveWaits: for an alarm to pass, and while too much is under way; it says why.
func TestRedriveWaits(t *testing.T) {
	f := newFixture(t)
	dead := f.declare("a", "dead")
	f.declare("a", "orders")
	f.host.hold(dead, heldMessages{ready: []heldMessage{letter(1, 0, "", "", "orders", "rejected", 1)}, next: 2, moving: limits.RedriveMovingMax + 1})
	f.takes(dead)
	take, tries := f.broker.move, 0
	f.broker.move = func(m *broker.Move) (uint64, error) {
		if tries++; tries == 1 {
			return 0, &broker.BlockedError{Reason: "low on disk"}
		}
		return take(m)
	}
	x := f.redrive("guest", "/api/queues/a/dead/redrive", "")
	if x.State != redriveRunning || x.Reason != "many messages are still on their way to their queues" {
		t.Fatal(x)
	}
	f.host.mu.Lock()
	f.host.held[dead].moving = 0
	f.host.mu.Unlock()
	blocked := false
	for x.State == redriveRunning {
		if err := json.Unmarshal([]byte(f.get("/api/redrives/"+x.ID)), x); err != nil {
			t.Fatal(err)
		}
		blocked = blocked || x.Reason == "publishers are blocked: the cluster is low on disk"
	}
	if x.String() != `done "" scanned=1 matched=1 moved=1 skipped=0 orders:1` || !blocked {
		t.Error(x, blocked)
	}
}

// TestRedriveFails: what cannot pass ends it.
func TestRedriveFails(t *testing.T) {
	f := newFixture(t)
	dead := f.declare("a", "dead")
	f.declare("a", "orders")
	f.host.hold(dead, heldMessages{ready: []heldMessage{letter(1, 0, "", "", "orders", "rejected", 1)}, next: 2})
	f.broker.move = func(*broker.Move) (uint64, error) { return 0, amqp.Errorf(amqp.ReplyPreconditionFailed, "planted") }
	if x := f.redrive("guest", "/api/queues/a/dead/redrive", ""); x.String() != `failed "PRECONDITION_FAILED - planted" scanned=0 matched=0 moved=0 skipped=0` {
		t.Error(x)
	}
	f.broker.move = func(*broker.Move) (uint64, error) {
		f.host.apply(meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: dead}})
		return 0, errors.New("no leader")
	}
	if x := f.redrive("guest", "/api/queues/a/dead/redrive", ""); x.State == redriveDone {
		t.Error(x)
	}
}

// TestRedriveOnAnyNode: one node runs it with the leader's messages, another one shows and stops it; rights are those of its owner.
func TestRedriveOnAnyNode(t *testing.T) {
	f := newFixture(t)
	two := f.join("rabbit@two")
	dead := f.declare("a", "okdead", 2)
	f.declare("a", "ok")
	var h heldMessages
	for seq := queue.Seq(1); seq <= 100; seq++ {
		h.ready = append(h.ready, letter(seq, 0, "", "", "ok", "rejected", 1))
	}
	h.next = 101
	two.host.hold(dead, h)
	two.host.set("a", "okdead", func(st *quorum.QueueStatus) { st.Counts.Moving, st.PendingReason = 3, "a target is full" })
	two.s.sampler.tick(time.Now())
	f.s.sampler.tick(time.Now())
	var mu sync.Mutex
	asked := 0
	f.broker.move = func(m *broker.Move) (uint64, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		return uint64(len(m.Seqs)), nil
	}
	x := f.redrive("mgt", "/api/queues/a/okdead/redrive", `{"rate":5}`)
	if x.State != redriveRunning || x.Moved == 0 || x.Moved > 15 || x.Pending != 3 || x.PendingReason != "a target is full" {
		t.Error(x, x.Pending, x.PendingReason)
	}
	f.want(two.do("none", http.MethodGet, "/api/redrives", ""), 401, "")
	f.want(two.do("pol", http.MethodGet, "/api/redrives", ""), 200, "[]")
	f.want(two.do("guest", http.MethodGet, "/api/redrives?columns=id,queue,state,rate", ""), 200, `[{"id":"`+x.ID+`","queue":"okdead","rate":5,"state":"running"}]`)
	f.want(two.do("pol", http.MethodDelete, "/api/redrives/"+x.ID, ""), 404, "")
	f.want(two.do("mon", http.MethodDelete, "/api/redrives/"+x.ID, ""), 401, "")
	f.want(two.do("mgt", http.MethodDelete, "/api/redrives/"+x.ID, ""), 204, "")
	if err := json.Unmarshal([]byte(f.get("/api/redrives/"+x.ID)), x); err != nil || x.State != redriveStopped || x.Moved == 100 {
		t.Error(x, err)
	}
}

// TestRedrivesAreBounded: so many at a time, and so many that ended are remembered.
func TestRedrivesAreBounded(t *testing.T) {
	f := newFixture(t)
	dead := f.declare("a", "dead")
	f.declare("a", "orders")
	f.host.hold(dead, heldMessages{next: 1})
	q := f.host.Catalogue().View.Queue("a", "dead")
	for range limits.RedrivesKept + 5 {
		<-f.s.redrives.begin(f.s, q, &redriveSpec{vhost: "a", queue: "dead"}).ended
	}
	if n := len(f.s.redrives.states()); n != limits.RedrivesKept {
		t.Errorf("%d are kept", n)
	}
	f.host.hold(dead, heldMessages{next: 1, moving: limits.RedriveMovingMax + 1})
	for range limits.RedrivesMax {
		if f.s.redrives.begin(f.s, q, &redriveSpec{vhost: "a", queue: "dead"}) == nil {
			t.Fatal("refused too early")
		}
	}
	f.want(f.do("guest", http.MethodPost, "/api/queues/a/dead/redrive", ""), 503, "too many redrives")
}

// TestDeadLetters: the queues that dead letters go to, by the default exchange, by bindings and as the parking queue, with what a sample of them shows.
func TestDeadLetters(t *testing.T) {
	f := newFixture(t)
	declare := func(name, exchange, key string) {
		args := amqp.Table{{Key: "x-dead-letter-exchange", Value: amqp.Longstr(exchange)}}
		if key != "" {
			args = append(args, amqp.Field{Key: "x-dead-letter-routing-key", Value: amqp.Longstr(key)})
		}
		f.host.apply(meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: "a", Name: name, Durable: true, Replicas: []meta.NodeID{1}, Arguments: meta.NewArguments(args)}})
	}
	for _, name := range []string{"amq.dead", "dead", "fan", "far", "other", "plain"} {
		f.declare("a", name)
	}
	declare("q1", "", "dead")
	declare("q2", "first", "k")
	declare("q3", "gone", "")
	for _, x := range [][2]string{{"first", "direct"}, {"second", "fanout"}} {
		f.host.apply(meta.Command{Op: meta.OpDeclareExchange, Exchange: meta.Exchange{VHost: "a", Name: x[0], Type: x[1], Durable: true}})
	}
	for _, b := range []meta.Binding{
		{Source: "first", Kind: meta.ToQueue, Destination: "fan", RoutingKey: "k"}, {Source: "first", Kind: meta.ToQueue, Destination: "other", RoutingKey: "j"},
		{Source: "first", Kind: meta.ToExchange, Destination: "second", RoutingKey: "k"}, {Source: "second", Kind: meta.ToExchange, Destination: "first"},
		{Source: "second", Kind: meta.ToQueue, Destination: "far"},
	} {
		b.VHost = "a"
		f.host.apply(meta.Command{Op: meta.OpBind, Binding: b})
	}
	id := f.host.Catalogue().View.Queue("a", "dead").ID
	f.host.hold(id, heldMessages{ready: []heldMessage{
		letter(1, 0, "", "", "q1", "rejected", 1), letter(2, 0, "", "", "", "", 0), letter(3, 0, "", "", "q1", "rejected", 1), letter(4, 0, "", "", "q1", "expired", 1),
	}})
	f.host.set("a", "dead", func(st *quorum.QueueStatus) { st.Counts.Ready = 5000 })
	f.s.sampler.tick(time.Now())
	if got, want := f.get("/api/dead-letters?columns=name"), `[{"name":"amq.dead"},{"name":"dead"},{"name":"fan"},{"name":"far"}]`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	one := `{"name":"dead","vhost":"a","messages_ready":5000,"sampled":4,"sources":[{"queue":"q1","reason":"rejected","messages":2},{"queue":"","reason":"","messages":1},{"queue":"q1","reason":"expired","messages":1}]}`
	if got := f.get("/api/dead-letters/a/dead"); got != one {
		t.Errorf("%s\nwant %s", got, one)
	}
	if got := f.get("/api/dead-letters/a"); !strings.Contains(got, one) {
		t.Errorf("%s\nlacks %s", got, one)
	}
	f.want(f.do("mgt", http.MethodGet, "/api/dead-letters/%2F", ""), 401, "")
	f.want(f.do("mgt", http.MethodGet, "/api/dead-letters/a/nope", ""), 404, "")
}

// TestDraining: deleted queues that wait for their messages are listed, and an administrator may drop them.
func TestDraining(t *testing.T) {
	f := newFixture(t)
	id := f.declare("a", "okay")
	f.host.set("a", "okay", func(st *quorum.QueueStatus) {
		st.Counts.Dead, st.Counts.DeadBytes, st.PendingReason = 7, 70, "a target is full"
	})
	f.host.apply(meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: id}, Drain: true})
	f.declare("a", "okay")
	want := fmt.Sprintf(`[{"id":"%d","name":"okay","vhost":"a","messages_dlx":7,"message_bytes_dlx":70,"dlx_pending_reason":"a target is full","leader":"rabbit@test"}]`, id)
	if got := f.get("/api/draining"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	f.want(f.do("pol", http.MethodGet, "/api/draining", ""), 200, "[]")
	if got := f.get("/api/queues/a?columns=name"); got != `[{"name":"okay"}]` {
		t.Error("queues:", got)
	}
	path := fmt.Sprintf("/api/draining/%d", id)
	f.want(f.do("mgt", http.MethodDelete, path, ""), 401, "")
	f.want(f.do("guest", http.MethodDelete, fmt.Sprintf("/api/draining/%d", id+1), ""), 404, "")
	f.want(f.do("guest", http.MethodDelete, path, ""), 200, `{"name":"okay","vhost":"a","messages_dropped":7,"leader":"rabbit@test"}`)
	f.want(f.do("guest", http.MethodDelete, path, ""), 404, "")
	lost := f.declare("a", "lost") // its leader is, and it is gone all the same
	f.host.set("a", "lost", func(st *quorum.QueueStatus) { st.Counts.Dead, st.Leader = 3, 99 })
	f.host.apply(meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: lost}, Drain: true})
	f.want(f.do("guest", http.MethodDelete, fmt.Sprintf("/api/draining/%d", lost), ""), 200, `{"name":"lost","vhost":"a","messages_dropped":3,"leader":""}`)
	if f.get("/api/draining") != "[]" || f.host.Catalogue().View.Queue("a", "okay") == nil {
		t.Error("it is still there, or the new one is not")
	}
}

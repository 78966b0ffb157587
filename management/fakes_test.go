package management

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/internal/machine"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// fakeHost is a catalogue without Raft, and queues that are what a test says.
type fakeHost struct {
	mu      sync.Mutex
	m       *meta.Machine
	index   uint64
	status  map[meta.QueueID]quorum.QueueStatus
	asked   int   // calls of QueueStatus
	failure error // of Do and DeleteQueue
}

func newFakeHost(cmds ...meta.Command) *fakeHost {
	h := &fakeHost{m: meta.New(), status: make(map[meta.QueueID]quorum.QueueStatus)}
	h.apply(meta.Command{Op: meta.OpFound, Text: "0123", Name: "test"},
		meta.Command{Op: meta.OpRegisterNode, Node: meta.Node{Name: "rabbit@test", Address: "test:1", Token: 1, MachineVersion: 1}},
		meta.Command{Op: meta.OpRegisterBoot, Node: meta.Node{ID: 1, Boot: h.Boot()}})
	h.apply(cmds...)
	return h
}

func (h *fakeHost) apply(cmds ...meta.Command) []meta.Reply {
	h.mu.Lock()
	defer h.mu.Unlock()
	var replies []meta.Reply
	for i := range cmds {
		h.index++
		r, _ := h.m.Apply(machine.Stamp{Index: h.index, NowMillis: 1}, &cmds[i], nil)
		replies = append(replies, r)
	}
	return replies
}

func (h *fakeHost) Catalogue() *quorum.Catalogue {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &quorum.Catalogue{View: h.m.View()}
}

func (h *fakeHost) Do(_ context.Context, cmds ...meta.Command) ([]meta.Reply, error) {
	if h.failure != nil {
		return nil, h.failure
	}
	return h.apply(cmds...), nil
}

func (h *fakeHost) DeleteQueue(_ context.Context, id meta.QueueID, cond queue.Condition) (quorum.DeleteResult, error) {
	st, _ := h.QueueStatus(id)
	switch {
	case h.failure != nil:
		return quorum.DeleteResult{}, h.failure
	case cond&queue.IfUnused != 0 && st.Counts.Consumers > 0:
		return quorum.DeleteResult{Code: queue.CodeInUse}, nil
	case cond&queue.IfEmpty != 0 && st.Counts.Ready > 0:
		return quorum.DeleteResult{Code: queue.CodeNotEmpty}, nil
	case h.apply(meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: id}})[0].Reason != meta.ReasonOK:
		return quorum.DeleteResult{}, quorum.ErrNoQueue
	}
	return quorum.DeleteResult{}, nil
}

func (h *fakeHost) QueueStatus(id meta.QueueID) (quorum.QueueStatus, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	q := h.m.View().QueueByID(id)
	if q == nil {
		return quorum.QueueStatus{}, false
	}
	st, ok := h.status[id]
	if !ok {
		st = quorum.QueueStatus{State: quorum.StateParked}
	}
	st.Members, st.Online = q.Replicas, q.Replicas
	return st, true
}

func (h *fakeHost) askedSoFar() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

func (h *fakeHost) Node() meta.NodeID { return 1 }
func (h *fakeHost) Boot() meta.Boot   { return meta.Boot{Counter: 1, Nonce: 1} }

// set changes the numbers of a queue, which runs from then on.
func (h *fakeHost) set(vhost, name string, change func(*quorum.QueueStatus)) {
	q := h.Catalogue().View.Queue(vhost, name)
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.status[q.ID]
	st.State, st.Leader = quorum.StateRunning, 1
	change(&st)
	h.status[q.ID] = st
}

// fakeBroker has connections and messages that a test says.
type fakeBroker struct {
	mu          sync.Mutex
	totals      broker.Totals
	connections []broker.Connection
	channels    []broker.Channel
	consumers   []broker.Consumer
	messages    map[string][]broker.Message
	closed      []string
	published   []string
	failure     error
	boom        bool
}

func (b *fakeBroker) Totals() broker.Totals {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.totals
}

func (b *fakeBroker) ExchangeCounts(_, name string) (in, out uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.totals.Published, uint64(len(name))
}

func (b *fakeBroker) Connections() []broker.Connection {
	b.mu.Lock()
	defer b.mu.Unlock()

	return append([]broker.Connection(nil), b.connections...)
}
func (b *fakeBroker) Channels() []broker.Channel {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]broker.Channel(nil), b.channels...)
}

func (b *fakeBroker) Consumers() []broker.Consumer {
	if b.boom {
		panic("planted")
	}
	return append([]broker.Consumer(nil), b.consumers...)
}

func (b *fakeBroker) CloseConnection(name, reason string) bool {
	b.closed = append(b.closed, name+": "+reason)
	return true
}

func (b *fakeBroker) Publish(_ context.Context, user, vhost, exchange, key string, properties, body []byte) (bool, error) {
	if b.failure != nil {
		return false, b.failure
	}
	v, err := amqp.ScanProperties(properties)
	if err != nil {
		return false, err
	}
	var p amqp.Properties
	v.Load(&p)
	b.published = append(b.published, fmt.Sprintf("%s %s %q %s %s %q", user, vhost, exchange, key, p.String(), body))
	if exchange != "" || key == "" {
		return false, nil
	}
	if b.messages == nil {
		b.messages = make(map[string][]broker.Message)
	}
	m := broker.Message{Envelope: broker.Envelope{Exchange: []byte(exchange), RoutingKey: []byte(key), Properties: properties, Body: body}}
	b.messages[vhost+"/"+key] = append(b.messages[vhost+"/"+key], m)
	return true, nil
}

func (b *fakeBroker) Get(_ context.Context, user, vhost, name string, count int, settlement broker.Settlement) ([]broker.Message, error) {
	if b.failure != nil {
		return nil, b.failure
	}
	all := b.messages[vhost+"/"+name]
	got := append([]broker.Message(nil), all[:min(count, len(all))]...)
	for i := range got {
		got[i].Left = uint64(len(all) - i - 1)
		all[i].Redelivered = true
	}
	if settlement == broker.Remove || settlement == broker.RejectRemove {
		b.messages[vhost+"/"+name] = all[len(got):]
	}
	return got, nil
}

func (b *fakeBroker) Purge(_ context.Context, _, vhost, name string) (uint64, error) {
	n := len(b.messages[vhost+"/"+name])
	delete(b.messages, vhost+"/"+name)
	return uint64(n), b.failure
}

// fixture is a server on fakes.
type fixture struct {
	t       testing.TB
	host    *fakeHost
	broker  *fakeBroker
	s       *Server
	handler http.Handler
	from    string
}

// password is every user's.
const password = "x"

func user(name string, tags ...string) meta.Command {
	return meta.Command{Op: meta.OpPutUser, User: meta.User{Name: name, PasswordHash: meta.HashPassword([4]byte{1}, []byte(password)), Tags: tags}}
}

func permission(user, vhost, pattern string) meta.Command {
	return meta.Command{Op: meta.OpPutPermission, Permission: meta.Permission{User: user, VHost: vhost, Configure: pattern, Write: pattern, Read: pattern}}
}

// people is a cluster with two virtual hosts and one user of each kind.
func people() []meta.Command {
	return []meta.Command{
		{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "/"}}, {Op: meta.OpPutVHost, VHost: meta.VHost{Name: "a"}},
		user("guest", "administrator"), user("admin", "administrator"), user("mon", "monitoring"), user("mgt", "management"), user("pol", "policymaker"), user("none"),
		permission("guest", "/", ".*"), permission("guest", "a", ".*"), permission("mgt", "a", "^ok"), permission("none", "a", ".*"),
	}
}

func newFixture(t testing.TB, change ...func(*Options)) *fixture {
	f := &fixture{t: t, host: newFakeHost(people()...), broker: &fakeBroker{}, from: "127.0.0.1:4000"}
	opt := Options{
		Host: f.host, Broker: f.broker, Log: slog.New(slog.DiscardHandler), Version: "0.1.0", LoopbackUsers: []string{"guest"},
		Listeners: func() []Listener {
			return []Listener{{"amqp", "::", 5672}, {"http", "::", 15672}, {"http/prometheus", "127.0.0.1", 15692}}
		},
	}
	for _, c := range change {
		c(&opt)
	}
	f.s = New(opt)
	t.Cleanup(f.s.Close)
	f.handler = f.s.Handler()
	return f
}

// do sends a request; user - has no login. A body of "" sends none.
func (f *fixture) do(user, method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = f.from
	if user != "-" {
		r.SetBasicAuth(user, password)
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w
}

// get is a GET as guest that must be answered with 200.
func (f *fixture) get(path string) string {
	f.t.Helper()
	w := f.do("guest", http.MethodGet, path, "")
	if w.Code != http.StatusOK {
		f.t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// declare makes a durable queue.
func (f *fixture) declare(vhost, name string) meta.QueueID {
	r := f.host.apply(meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: vhost, Name: name, Durable: true, Replicas: []meta.NodeID{1}}})
	return meta.QueueID(r[0].ID)
}

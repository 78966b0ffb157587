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
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/meta"
)

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
	// move is Move, moved what it was asked for.
	move  func(m *broker.Move) (uint64, error)
	moved []string
	// pick takes delayed messages out of where they are.
	pick func(q *meta.Queue, p broker.Pick) uint64
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
	b.mu.Lock()
	defer b.mu.Unlock()
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

func (b *fakeBroker) Move(_ context.Context, user string, m *broker.Move) (uint64, error) {
	n, err := uint64(len(m.Seqs)), error(nil)
	if b.move != nil {
		n, err = b.move(m)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moved = append(b.moved, fmt.Sprintf("%s %s %s -> %s back=%t %v", user, m.VHost, m.From, m.To, m.Back, m.Seqs))
	return n, err
}

func (b *fakeBroker) PickDelayed(_ context.Context, q *meta.Queue, p broker.Pick) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.published = append(b.published, fmt.Sprintf("%s deliver=%t all=%t %v", q.Name, p.Deliver, p.All, p.IDs))
	return b.pick(q, p), b.failure
}

func (b *fakeBroker) Recall(context.Context, *meta.Binding) error { return nil }

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
	// nodes are those of the cluster in order of their ids, this one among them; on is the one that a script speaks to.
	nodes []*fixture
	on    *fixture
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
	f := startFixture(t, newFakeHost(people()...), change...)
	f.nodes, f.on = []*fixture{f}, f
	return f
}

// join adds a node to the cluster.
func (f *fixture) join(name string) *fixture {
	n := startFixture(f.t, f.host.join(name))
	f.nodes = append(f.nodes, n)
	return n
}

// fakeWatch says what a test wants and remembers what it was told.
type fakeWatch struct {
	mu                   sync.Mutex
	status               alarm.Status
	memoryHigh, diskFree alarm.Threshold
}

func (w *fakeWatch) Status() alarm.Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

func (w *fakeWatch) SetMemoryHigh(t alarm.Threshold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.memoryHigh = t
}

func (w *fakeWatch) SetDiskFree(t alarm.Threshold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diskFree = t
}

// startFixture serves the API of a node.
func startFixture(t testing.TB, host *fakeHost, change ...func(*Options)) *fixture {
	f := &fixture{t: t, host: host, broker: &fakeBroker{pick: host.pick}, from: "127.0.0.1:4000"}
	opt := Options{
		Host: f.host, Broker: f.broker, Watch: &fakeWatch{}, Log: slog.New(slog.DiscardHandler), Version: "0.1.0", LoopbackUsers: []string{"guest"},
		Listeners: func() []Listener {
			return []Listener{{Protocol: "amqp", IP: "::", Port: 5672}, {Protocol: "http", IP: "::", Port: 15672}, {Protocol: "http/prometheus", IP: "127.0.0.1", Port: 15692}}
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
func (f *fixture) declare(vhost, name string, replicas ...meta.NodeID) meta.QueueID {
	if len(replicas) == 0 {
		replicas = []meta.NodeID{1}
	}
	r := f.host.apply(meta.Command{Op: meta.OpDeclareQueue, Queue: meta.Queue{VHost: vhost, Name: name, Durable: true, Replicas: replicas}})
	return meta.QueueID(r[0].ID)
}

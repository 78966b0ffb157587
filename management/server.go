package management

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/internal/guess"
	ui "github.com/warrenmq/warren/management-ui"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
	"github.com/warrenmq/warren/storage/wal"
)

// RabbitMQVersion is the version of RabbitMQ that the API speaks; tools choose their behaviour by it.
const RabbitMQVersion = "4.3.0"

// productName is the software's own name.
const productName = "Warren"

// Host is what the API needs of the node that runs the queues and the catalogue; a quorum.Host is one.
type Host interface {
	// Catalogue is the present view; it is immutable. Leased tells whether it has all that others were told of.
	Catalogue() *quorum.Catalogue
	Leased() bool
	// Do writes to the catalogue; refusals are in the replies.
	Do(ctx context.Context, cmds ...meta.Command) ([]meta.Reply, error)
	// DeleteQueue deletes a queue under a condition.
	DeleteQueue(ctx context.Context, id meta.QueueID, cond queue.Condition) (quorum.DeleteResult, error)
	// QueueStatus tells how a queue is now. It is called once a second for every queue of which the node has something.
	QueueStatus(id meta.QueueID) (quorum.QueueStatus, bool)
	// PriorityCounts are the ready messages of a queue that runs here, by priority from 0 on.
	PriorityCounts(id meta.QueueID) []uint64
	// NowMillis is the time by which the queues go that this node leads, Unrouted how many messages left a delayed exchange here and were bound nowhere.
	NowMillis() int64
	Unrouted() uint64
	// LettersLost is how many dead letters were dropped here because too many waited.
	LettersLost() uint64
	// LogStats are the figures of the node's Raft log since it started; the longest sync is that since the last call.
	LogStats() wal.Stats
	// DamagedReplicas is how many replicas of this node have damaged files and are not replaced yet, DamageFound how many were found since its start.
	DamagedReplicas() int
	DamageFound() uint64
	// Peek looks at messages of a queue that has a replica here.
	Peek(ctx context.Context, id meta.QueueID, look quorum.Look, visit func(position int, m *queue.Peeked, envelope []byte) bool) (quorum.Seen, error)
	// AddReplica and RemoveReplica change the members of a queue's group, MoveLeader who leads it; Replicas tells how each is.
	AddReplica(ctx context.Context, id meta.QueueID, node meta.NodeID) error
	RemoveReplica(ctx context.Context, id meta.QueueID, node meta.NodeID) error
	MoveLeader(ctx context.Context, id meta.QueueID, node meta.NodeID) error
	Replicas(ctx context.Context, id meta.QueueID) ([]quorum.ReplicaStatus, error)
	// Node and Boot name this incarnation of the node.
	Node() meta.NodeID
	Boot() meta.Boot
	// NodeUp tells whether a node is heard. AskNode asks its API, OnAsk sets what answers here.
	NodeUp(node meta.NodeID) bool
	AskNode(ctx context.Context, node meta.NodeID, question []byte) ([]byte, error)
	OnAsk(answer func(question []byte) ([]byte, error))
	// Alarms lists the nodes that are short of memory or disk space.
	Alarms() []quorum.NodeAlarms
}

// Broker is what the API needs of the node's AMQP side; a broker.Broker is one.
type Broker interface {
	// Totals are what the broker has done since it started.
	Totals() broker.Totals
	// ExchangeCounts are the messages into an exchange and the copies out of it.
	ExchangeCounts(vhost, name string) (in, out uint64)
	// Connections, Channels and Consumers list what there is.
	Connections() []broker.Connection
	Channels() []broker.Channel
	Consumers() []broker.Consumer
	// CloseConnection closes a connection by its name; false if there is none.
	CloseConnection(name, reason string) bool
	// Publish, Get and Purge are what a client would do, with the user's permissions. The errors are *amqp.Error or those of ctx.
	Publish(ctx context.Context, user, vhost, exchange, key string, properties, body []byte) (routed bool, err error)
	Get(ctx context.Context, user, vhost, queue string, count int, settlement broker.Settlement) ([]broker.Message, error)
	Purge(ctx context.Context, user, vhost, queue string) (uint64, error)
	// PickDelayed cancels messages that are to be ready later, or makes them ready now. Who may is not asked.
	PickDelayed(ctx context.Context, q *meta.Queue, p broker.Pick) (uint64, error)
	// Move moves messages to another queue, with the user's permissions.
	Move(ctx context.Context, user string, m *broker.Move) (uint64, error)
	// Recall gives the destination of a new binding the last messages of its source, if that keeps any.
	Recall(ctx context.Context, b *meta.Binding) error
}

var _ Host = (*quorum.Host)(nil)
var _ Broker = (*broker.Broker)(nil)
var _ Watch = (*alarm.Monitor)(nil)

// Listener is a place where the node listens.
type Listener struct {
	// Protocol is RabbitMQ's word: amqp, amqp/ssl, clustering, http, https, http/prometheus, https/prometheus.
	Protocol string
	// IP is the address, :: for all; Port the port.
	IP   string
	Port int
	// TLS says that it is one with TLS.
	TLS bool
	// Certificates are what it serves with; other nodes are not told.
	Certificates *Certificates
}

// Certificates are what a listener proves itself with and verifies clients against.
type Certificates struct {
	// CertFile and CAFile are where they come from.
	CertFile, CAFile string
	// Chain begins with the listener's own certificate; Authorities are what clients' certificates are verified against.
	Chain, Authorities []*x509.Certificate
}

// Watch is what the API needs of the node's watch over memory and disk space; an *alarm.Monitor is one.
type Watch interface {
	// Status is what the node takes, has, and is short of.
	Status() alarm.Status
	// SetMemoryHigh and SetDiskFree set the bounds of this node until its process ends.
	SetMemoryHigh(alarm.Threshold)
	SetDiskFree(alarm.Threshold)
}

// Options tells New what to serve.
type Options struct {
	// Host and Broker are where everything comes from. Both are needed.
	Host   Host
	Broker Broker
	// Log takes what operators should know; slog.Default if nil.
	Log *slog.Logger
	// Version is the product's own version.
	Version string
	// LoopbackUsers are the users that may log in from the loopback addresses only.
	LoopbackUsers []string
	// Listeners lists where the node listens; none if nil.
	Listeners func() []Listener
	// Ready returns nil while the node serves clients, else why it does not; a nil Ready is always ready.
	Ready func() error
	// ConnectionMax is how many connections the node serves; 0 for no bound.
	ConnectionMax int
	// Watch looks after memory and disk space. It is needed.
	Watch Watch
	// DataDir is where the node keeps its data; ConfigFiles is what its settings were read from. Both are shown to monitoring users.
	DataDir     string
	ConfigFiles []string
	// Secret is what the nodes of the cluster share; sessions are signed with a key made from it. Without one they are this process's alone.
	Secret []byte
	// Guesses slows down the refusal of logins from where many have failed; nothing does if nil.
	Guesses *guess.Brake
	// SessionLife is how long an unused session of a browser lives; eight hours if 0.
	SessionLife time.Duration
	// PathPrefix stands before the paths of the API and the UI, as /warren; none if empty. Health and metrics stay where they are.
	PathPrefix string
	// UI has the web UI's files; those of package management-ui if nil.
	UI fs.FS
}

// Server answers HTTP requests. Make one with New and end it with Close.
type Server struct {
	opt      Options
	log      *slog.Logger
	started  time.Time
	routes   node
	document []byte // OpenAPI
	sampler  *sampler
	peers    *peers
	answers  answers
	registry *prometheus.Registry
	pages    http.Handler
	sessions *sessions
	logins   logins
	attempts attemptsBase
	redrives redrives
	churn    churn
	heavy    chan struct{} // has an entry for each heavy request that is being answered
}

// logins count what came over HTTP.
type logins struct{ attempts, succeeded, failed atomic.Uint64 }

// churn counts what was declared, made and deleted over HTTP; the broker's totals have what came over AMQP.
type churn struct{ declared, created, deleted atomic.Uint64 }

func (c *churn) add(t *broker.Totals) counters {
	return counters{
		churnConnectionsCreated: t.ConnectionsOpened, churnConnectionsClosed: t.ConnectionsClosed, churnChannelsCreated: t.ChannelsOpened,
		churnChannelsClosed: t.ChannelsClosed, churnQueuesDeclared: t.QueuesDeclared + c.declared.Load(), churnQueuesCreated: t.QueuesCreated + c.created.Load(),
		churnQueuesDeleted: t.QueuesDeleted + c.deleted.Load(),
	}
}

// New makes a Server and starts its sampler, which visits every queue once a second until Close.
func New(opt Options) *Server {
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	if opt.Listeners == nil {
		opt.Listeners = func() []Listener { return nil }
	}
	if opt.Ready == nil {
		opt.Ready = func() error { return nil }
	}
	if opt.UI == nil {
		opt.UI = ui.FS
	}
	s := &Server{opt: opt, log: opt.Log, started: time.Now(), heavy: make(chan struct{}, limits.HTTPHeavyMax)}
	s.sessions = newSessions(opt.Secret, opt.SessionLife)
	s.peers = newPeers(s)
	s.sampler = newSampler(s)
	s.redrives.init()
	opt.Host.OnAsk(s.answer)
	s.registry = s.newRegistry()
	s.pages = newPages(opt.UI)
	for i := range operations {
		s.routes.add(&operations[i])
	}
	s.document = openAPIDocument(operations, opt.Version, opt.PathPrefix)
	go s.sampler.run()
	return s
}

// Close ends the sampler, and other nodes get no answers any more; a second time it does nothing. Requests that are under way are answered.
func (s *Server) Close() {
	s.opt.Host.OnAsk(func([]byte) ([]byte, error) { return nil, errors.New("the node is stopping") })
	s.redrives.close()
	s.peers.stop()
	s.sampler.close()
}

// Handler serves the API, the health endpoints, /metrics and the web UI.
func (s *Server) Handler() http.Handler {
	metrics := s.metricsHandler()
	crossOrigin := http.NewCrossOriginProtection()
	return s.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		switch {
		case path == "/metrics":
			metrics.ServeHTTP(w, r)
			return
		case path == "/livez", path == "/readyz":
			s.health(w, r)
			return
		}
		path, ok := strings.CutPrefix(path, s.opt.PathPrefix)
		switch {
		case !ok, path != "" && path[0] != '/':
			http.NotFound(w, r)
		case path == "/api", path == "/api/", path == "":
			http.Redirect(w, r, s.opt.PathPrefix+"/", http.StatusMovedPermanently)
		case len(path) > 5 && path[:5] == "/api/":
			if crossOrigin.Check(r) != nil {
				s.refuse(w, &failure{status: http.StatusForbidden, kind: "forbidden", reason: "cross-origin requests may not change anything"})
				return
			}
			s.api(w, r, path[4:])
		default:
			http.StripPrefix(s.opt.PathPrefix, s.pages).ServeHTTP(w, r)
		}
	}))
}

// MetricsHandler serves /metrics, /livez and /readyz, without a login.
func (s *Server) MetricsHandler() http.Handler {
	metrics := s.metricsHandler()
	return s.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case "/metrics":
			metrics.ServeHTTP(w, r)
		case "/livez", "/readyz":
			s.health(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
}

// answerTimeout bounds how long an answer may take to be read.
const answerTimeout = 5 * time.Minute

// NewHTTPServer makes a server for one of the handlers with the limits of config/limits: header, time to arrive, idle time.
func NewHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, MaxHeaderBytes: limits.HTTPHeaderBytesMax,
		ReadHeaderTimeout: limits.HTTPReadTimeoutMillis * time.Millisecond, ReadTimeout: limits.HTTPReadTimeoutMillis * time.Millisecond,
		IdleTimeout: limits.HTTPIdleTimeoutMillis * time.Millisecond, WriteTimeout: answerTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// guard ends a request whose handler panics with 500 and nothing else; if an answer was begun, its connection is cut.
func (s *Server) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w := &begun{ResponseWriter: out}
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.log.Error("a request failed by a bug", "method", r.Method, "path", r.URL.EscapedPath(), "panic", p, "stack", string(debug.Stack()))
			if w.yes {
				panic(http.ErrAbortHandler)
			}
			s.refuse(w, internalError())
		}()
		h.ServeHTTP(w, r)
	})
}

// begun knows whether an answer was begun.
type begun struct {
	http.ResponseWriter
	yes bool
}

// Unwrap lets http.ResponseController find the writer beneath.
func (w *begun) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the answer.
func (w *begun) WriteHeader(status int) {
	w.yes = true
	w.ResponseWriter.WriteHeader(status)
}

// Write begins or goes on with the answer.
func (w *begun) Write(b []byte) (int, error) {
	w.yes = true
	return w.ResponseWriter.Write(b)
}

// api answers a request to the API; path is what follows /api.
func (s *Server) api(w http.ResponseWriter, r *http.Request, path string) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Vary", "accept, accept-encoding, origin")
	h.Set("X-Content-Type-Options", "nosniff")
	c := &call{s: s, w: w, r: r}
	route := s.routes.find(path, &c.params)
	if route == nil || !route.tidy(&c.params) {
		s.refuse(w, objectNotFound())
		return
	}
	op, status := route.pickMethod(r.Method)
	if op == nil {
		h.Set("Allow", route.allow())
		w.WriteHeader(status)
		return
	}
	if refused := c.admit(op); refused != nil {
		if refused.status == http.StatusServiceUnavailable {
			h.Set("Retry-After", "1")
		}
		s.refuse(w, refused)
		return
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		s.refuse(w, &failure{status: http.StatusUnsupportedMediaType, kind: "unsupported_media_type", reason: "a request's body must not be compressed"})
		return
	}
	if op.isHeavy() {
		select {
		case s.heavy <- struct{}{}:
			defer func() { <-s.heavy }()
		default:
			h.Set("Retry-After", "1")
			s.refuse(w, unavailable("too many requests for lists and messages are being answered"))
			return
		}
	}
	c.query = r.URL.Query()
	if err := c.readSpans(); err != nil {
		s.refuse(w, s.failureOf(err, r))
		return
	}
	if err := op.handle(c); err != nil {
		s.refuse(w, s.failureOf(err, r))
	}
}

// admit finds the user of a request, who may do op, and the view of the catalogue that it is answered from. What changes something waits until the node may trust its view, but for nobody who could not log in: those would
// hold connections, and hear of a wrong password late.
func (c *call) admit(op *operation) *failure {
	c.view = c.s.opt.Host.Catalogue().View
	if refused := c.login(op); refused != nil || !op.trusts() {
		return refused
	}
	if !c.s.awaitLease(c.r.Context()) {
		return unavailable("the node does not hear the leader of the catalogue, so it may not know all that was changed elsewhere; nothing was done")
	}
	before := c.view
	if c.view = c.s.opt.Host.Catalogue().View; c.view == before {
		return nil
	}
	return c.login(op) // it may have been changed elsewhere, what the user may do, too
}

// login finds the user, if op wants one.
func (c *call) login(op *operation) *failure {
	if op.access == anybody {
		return nil
	}
	if refused := c.authenticate(); refused != nil {
		return refused
	}
	return op.access.check(c.user)
}

// awaitLease waits a moment while the node may not trust its view of the catalogue: it has just started, or was cut off (PROTOCOL 5). It reports whether the node may by then.
func (s *Server) awaitLease(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, limits.HTTPLeaseWaitMillis*time.Millisecond)
	defer cancel()
	for !s.opt.Host.Leased() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(leaseLook):
		}
	}
	return true
}

// leaseLook is the pause between two looks whether there is a lease again.
const leaseLook = 20 * time.Millisecond

// failureOf returns the failure in an error; any other is a bug or a broken node.
func (s *Server) failureOf(err error, r *http.Request) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	s.log.Error("a request failed", "method", r.Method, "path", r.URL.EscapedPath(), "error", err)
	return internalError()
}

// refuse sends a failure.
func (s *Server) refuse(w http.ResponseWriter, f *failure) {
	if f.challenge {
		w.Header().Set("WWW-Authenticate", realm)
	}
	if f.kind == "" {
		w.WriteHeader(f.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	out := &writer{out: w, status: f.status}
	f.write(out)
	out.finish()
}

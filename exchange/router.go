package exchange

import (
	"slices"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/cow"
	"github.com/warrenmq/warren/meta"
)

// Reason says how routing went.
type Reason uint8

const (
	// OK: the exchange exists. No queue in the result means that the message is unroutable.
	OK Reason = 0
	// NoVHost: the virtual host does not exist.
	NoVHost Reason = 1
	// NoExchange: the exchange does not exist.
	NoExchange Reason = 2
	// Internal: the exchange is internal. The result is complete, but a publish of a client must be refused.
	Internal Reason = 3
)

// String returns a short name for logs and scripts.
func (r Reason) String() string {
	switch r {
	case OK:
		return "ok"
	case NoVHost:
		return "no-vhost"
	case NoExchange:
		return "no-exchange"
	}
	return "internal"
}

// Router routes the messages of all virtual hosts as of one View.
type Router struct {
	view   *meta.View
	node   *Node
	vhosts cow.Hash[*VHost]
}

// Node is what routing needs of the node that it happens on. Both functions must be cheap and may be called from several goroutines; one that is nil is never called, see there.
type Node struct {
	// Random returns uniformly distributed numbers, for x-random and x-local-random. Without it the first destination is taken always.
	Random func() uint64
	// Local tells whether a queue is served by this node, for x-local-random. Without it every queue is.
	Local func(meta.QueueID) bool
}

func (n *Node) random() uint64 {
	if n.Random == nil {
		return 0
	}
	return n.Random()
}

func (n *Node) local(id meta.QueueID) bool { return n.Local == nil || n.Local(id) }

// Compile makes a Router from a View, for one node.
func Compile(v *meta.View, node Node) *Router {
	return (&Router{view: meta.New().View(), node: &node}).Update(v)
}

// Message is what routing reads of a message beside exchange and routing key, and where it notes what keeps the message.
type Message struct {
	// Copies are further routing keys (headers CC and BCC): an exchange takes the message if it takes one of the keys, and its alternate exchange gets it otherwise. Types that hash the routing
	// key, or none, do not read them.
	Copies []string
	// Properties are nil if the message has none. Headers exchanges read its headers, x-consistent-hash what it hashes, x-recent-history whether the message is kept.
	Properties *amqp.PropertyView
	// Histories is where routing appends the histories that keep the message, of the x-recent-history exchanges that it passed. They do not make a message routable and are not among the result.
	Histories []meta.QueueID
	// Delayed says that the message is to wait: an x-delayed-message exchange that it passes leads it to its relay and no further. From there it is routed on without.
	Delayed bool
	// Passed is the relay that the message comes from, if any: what its exchange does to messages is done.
	Passed meta.QueueID
	// Through routes to where the bindings lead at present, as if there were no relays. Else Relayed tells that the message was led to one.
	Through, Relayed bool
}

// View returns the View that the Router was made from.
func (r *Router) View() *meta.View { return r.view }

// VHost returns the routing of one virtual host, nil if there is none. It belongs to this Router: after a swap it routes as before the swap.
func (r *Router) VHost(name string) *VHost {
	h, _ := r.vhosts.Get(name)
	return h
}

// Route is VHost.Route with the look-up of the virtual host.
func (r *Router) Route(vhost string, exchange, key []byte, m *Message, dst []meta.QueueID) ([]meta.QueueID, Reason) {
	h := r.VHost(vhost)
	if h == nil {
		return dst, NoVHost
	}
	return route(h, exchange, key, m, dst)
}

// VHost routes the messages of one virtual host. It is immutable.
type VHost struct {
	node *Node
	// queues are the implicit bindings of the default exchange: every queue under its name.
	queues    cow.Hash[meta.QueueID]
	exchanges cow.Hash[*compiled]
}

// Route appends the queues that a message published to an exchange goes to; m may be nil. Afterwards the whole of dst is ascending without duplicates.
func (h *VHost) Route(exchange, key []byte, m *Message, dst []meta.QueueID) ([]meta.QueueID, Reason) {
	return route(h, exchange, key, m, dst)
}

// RouteString is Route for names that are strings.
func (h *VHost) RouteString(exchange, key string, m *Message, dst []meta.QueueID) ([]meta.QueueID, Reason) {
	return route(h, exchange, key, m, dst)
}

// kind is an exchange type.
type kind uint8

const (
	unservedKind kind = iota
	directKind
	fanoutKind
	topicKind
	headersKind
	// These choose one of their destinations.
	consistentHashKind
	modulusHashKind
	randomKind
	localRandomKind
)

func kindOf(exchangeType string) kind {
	switch exchangeType {
	case "direct":
		return directKind
	case "fanout", meta.TypeRecentHistory:
		return fanoutKind
	case "topic":
		return topicKind
	case "headers":
		return headersKind
	case meta.TypeConsistentHash:
		return consistentHashKind
	case meta.TypeModulusHash:
		return modulusHashKind
	case meta.TypeRandom:
		return randomKind
	case meta.TypeLocalRandom:
		return localRandomKind
	}
	return unservedKind
}

// compiled is one exchange with its bindings in the form that its type asks for.
type compiled struct {
	kind         kind
	internal     bool
	hasAlternate bool
	alternate    string
	direct       cow.Hash[*targets]
	// fanout are all destinations, also of types that choose one of them.
	fanout  *targets
	topic   *topicNode
	headers *headersList
	ring    *ring
	// hashed and header say what the ring hashes.
	hashed hashedOn
	header string
	// history is 0 for an exchange that keeps nothing, relay for one whose messages pass none. delays and dedups say which of them pass it.
	history, relay meta.QueueID
	delays, dedups bool
}

// targets are what a set of bindings leads to, both ascending and without duplicates.
type targets struct {
	queues    []meta.QueueID
	exchanges []string
	owner     *update
}

// hop is a message on its way through the exchanges of one virtual host.
type hop struct {
	h   *VHost
	m   *Message
	dst []meta.QueueID
	// passed are the exchanges that the message was at or will be at, in order; each is passed once.
	passed list[*compiled]
	// lists counts how many target lists went into dst: one alone is sorted and free of duplicates.
	lists   int
	matched bool
}

// bare is a message that has nothing. It is shared, so nothing is noted in it.
var bare Message

// headers are those of the message.
func (w *hop) headers() (table amqp.RawTable) {
	if w.m.Properties != nil {
		table, _ = w.m.Properties.Headers()
	}
	return table
}

func route[T cow.Text](h *VHost, exchange, key T, m *Message, dst []meta.QueueID) ([]meta.QueueID, Reason) {
	if m == nil {
		m = &bare
	}
	w, copies := hop{h: h, m: m, dst: dst, lists: len(dst)}, m.Copies
	if len(exchange) == 0 {
		defaultRoute(&w, key, copies)
		return w.tidy(), OK
	}
	first, ok := cow.Lookup(h.exchanges, exchange)
	if !ok {
		return dst, NoExchange
	}
	w.passed.add(first)
	for i := 0; i < w.passed.len; i++ {
		x := w.passed.at(i)
		w.matched = false
		match(&w, x, key, copies)
		if w.matched || !x.hasAlternate {
			continue
		}
		if x.alternate == "" {
			defaultRoute(&w, key, copies)
		} else {
			w.pass(x.alternate)
		}
	}
	if first.internal {
		return w.tidy(), Internal
	}
	return w.tidy(), OK
}

// defaultRoute finds the queues named as the routing keys.
func defaultRoute[T cow.Text](w *hop, key T, copies []string) {
	matchName(w, key)
	for _, key := range copies {
		matchName(w, key)
	}
}

func matchName[T cow.Text](w *hop, key T) {
	if id, ok := cow.Lookup(w.h.queues, key); ok {
		w.lists++
		w.dst = append(w.dst, id)
	}
}

// match adds what the bindings of one exchange say.
func match[T cow.Text](w *hop, x *compiled, key T, copies []string) {
	if x.relay != 0 && x.relay != w.m.Passed && !w.m.Through && (x.delays && w.m.Delayed || x.dedups && w.isIdentified()) {
		w.matched, w.m.Relayed = true, true
		w.lists++
		w.dst = append(w.dst, x.relay)
		return
	}
	switch x.kind {
	case directKind:
		matchDirect(w, x, key)
		for _, key := range copies {
			matchDirect(w, x, key)
		}
	case fanoutKind:
		if x.history != 0 {
			w.keep(x.history)
		}
		if x.fanout != nil {
			w.add(x.fanout)
		}
	case topicKind:
		if x.topic == nil {
			return
		}
		matchTopic(w, x.topic, key)
		for _, key := range copies {
			matchTopic(w, x.topic, key)
		}
	case headersKind:
		if x.headers != nil {
			w.matchHeaders(x.headers)
		}
	case consistentHashKind, modulusHashKind, randomKind, localRandomKind:
		matchOne(w, x, key)
	}
}

func matchDirect[T cow.Text](w *hop, x *compiled, key T) {
	if t, ok := cow.Lookup(x.direct, key); ok {
		w.add(t)
	}
}

// add adds one list of targets.
func (w *hop) add(t *targets) {
	w.matched = true
	if len(t.queues) > 0 {
		w.lists++
		w.dst = append(w.dst, t.queues...)
	}
	for _, name := range t.exchanges {
		w.pass(name)
	}
}

// isIdentified tells whether the message has an id by which it is known again.
func (w *hop) isIdentified() bool {
	v, ok := w.headers().Lookup(meta.HeaderDedup)
	return ok && v.Tag() != amqp.TagVoid
}

// keep adds a history, unless the message says that it is not to be kept.
func (w *hop) keep(history meta.QueueID) {
	if w.m == &bare {
		return
	}
	if v, ok := w.headers().Lookup(meta.HeaderNoStore); ok {
		if noStore, ok := v.Value().AsBool(); ok && noStore {
			return
		}
	}
	w.m.Histories = append(w.m.Histories, history)
}

// pass lets the message go on to another exchange unless it was there.
func (w *hop) pass(name string) {
	if x, ok := w.h.exchanges.Get(name); ok && !has(&w.passed, x) {
		w.passed.add(x)
	}
}

// tidy puts the result in order.
func (w *hop) tidy() []meta.QueueID {
	if w.lists < 2 {
		return w.dst
	}
	slices.Sort(w.dst)
	return slices.Compact(w.dst)
}

// listTypical is how many elements a list has without an allocation: exchanges that a message passes, places of a trie that it is at.
const listTypical = 8

// list is a short list that lives on the stack.
type list[T comparable] struct {
	len  int
	room [listTypical]T
	more []T
}

func (l *list[T]) add(v T) {
	if l.len < listTypical {
		l.room[l.len] = v
	} else {
		l.more = append(l.more, v)
	}
	l.len++
}

func (l *list[T]) at(i int) T {
	if i < listTypical {
		return l.room[i]
	}
	return l.more[i-listTypical]
}

func (l *list[T]) clear() { l.len, l.more = 0, l.more[:0] }

func has[T comparable](l *list[T], v T) bool {
	for i := range l.len {
		if l.at(i) == v {
			return true
		}
	}
	return false
}

package management

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/warrenmq/warren/broker"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
)

const (
	// patience is how long a request, or the sampler, waits for what other nodes know. A node that let somebody wait in vain is not waited for again within silence.
	patience = 500 * time.Millisecond
	silence  = time.Second
	// askTimeout bounds one message to another node and its answer.
	askTimeout = time.Second
	// gatheredFor is how long lists of other nodes' things are used before they are asked for again, gatheredKept how long those of a node that is up and does not answer are shown.
	gatheredFor  = time.Second
	gatheredKept = 5 * time.Second
	// partsMax bounds the parts of an answer.
	partsMax = answerBytesMax/partBytes + 1
)

// peers asks the other nodes of the cluster.
type peers struct {
	s    *Server
	ctx  context.Context // ends with the server
	stop context.CancelFunc

	mu     sync.Mutex
	silent map[meta.NodeID]time.Time // until when a node is not waited for

	connections gathered[shipped[broker.Connection]]
	channels    gathered[shipped[broker.Channel]]
	consumers   gathered[shipped[broker.Consumer]]
	traffic     gathered[traffic]
	exchanges   gathered[exchangeCount]
}

func newPeers(s *Server) *peers {
	p := &peers{s: s, silent: make(map[meta.NodeID]time.Time)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.connections = gathered[shipped[broker.Connection]]{kind: askConnections, each: packConnection}
	p.channels = gathered[shipped[broker.Channel]]{kind: askChannels, each: packChannel}
	p.consumers = gathered[shipped[broker.Consumer]]{kind: askConsumers, each: packConsumer}
	p.traffic = gathered[traffic]{kind: askTraffic, each: packTraffic}
	p.exchanges = gathered[exchangeCount]{kind: askExchanges, each: packExchange}
	return p
}

// others are the other nodes that are up, in order of their ids.
func (p *peers) others() []meta.NodeID {
	host := p.s.opt.Host
	var list []meta.NodeID
	for n := range host.Catalogue().View.Nodes() {
		if n.ID != host.Node() && !n.Replaced && host.NodeUp(n.ID) {
			list = append(list, n.ID)
		}
	}
	return list
}

// waitsFor tells whether a node is worth waiting for: it has not just let somebody wait in vain.
func (p *peers) waitsFor(node meta.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !time.Now().Before(p.silent[node])
}

// heard notes whether a node answered in time.
func (p *peers) heard(node meta.NodeID, inTime bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if inTime {
		delete(p.silent, node)
	} else {
		p.silent[node] = time.Now().Add(silence)
	}
}

// ask asks a node and collects the parts of its answer.
func (p *peers) ask(ctx context.Context, node meta.NodeID, q question) ([]byte, error) {
	first, err := p.message(ctx, node, q)
	if err != nil {
		return nil, err
	}
	r := codec.NewReader(first)
	id, parts := r.Uvarint(), r.Uvarint()
	if r.Err() != nil || parts == 0 || parts > partsMax {
		return nil, errors.New("the answer cannot be understood")
	}
	if parts == 1 {
		return r.Rest(), nil
	}
	body := append(make([]byte, 0, parts*partBytes), r.Rest()...)
	for part := uint64(1); part < parts; part++ {
		next, err := p.message(ctx, node, question{kind: askPart, answer: id, part: part})
		if err != nil {
			return nil, err
		}
		body = append(body, next...)
	}
	return body, nil
}

func (p *peers) message(ctx context.Context, node meta.NodeID, q question) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return p.s.opt.Host.AskNode(ctx, node, q.encode())
}

// askOne asks one node and waits for it, but not longer than patience.
func (p *peers) askOne(ctx context.Context, node meta.NodeID, q question) ([]byte, error) {
	if !p.s.opt.Host.NodeUp(node) {
		return nil, fmt.Errorf("node %d is not up", node)
	}
	if !p.waitsFor(node) {
		return nil, fmt.Errorf("node %d does not answer", node)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := p.ask(ctx, node, q)
	p.heard(node, !errors.Is(err, context.DeadlineExceeded))
	return body, err
}

// reply is what a node answered.
type reply struct {
	node meta.NodeID
	body []byte
}

// askAll asks all other nodes that are up at once. It returns the answers that came within patience, in order of the nodes' ids, and a node that did not answer, 0 if all did.
func (p *peers) askAll(ctx context.Context, q question) (answered []reply, missing meta.NodeID) {
	nodes := p.others()
	if len(nodes) == 0 {
		return nil, 0
	}
	replies := make([]reply, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() {
			body, err := p.askOne(ctx, node, q)
			if err != nil {
				p.s.log.Debug("a node did not tell what it knows", "node", node, "question", q.kind, "error", err)
				return
			}
			replies[i] = reply{node, body}
		})
	}
	wg.Wait()
	for i := range replies {
		if replies[i].node == 0 {
			missing = nodes[i]
		} else {
			answered = append(answered, replies[i])
		}
	}
	return answered, missing
}

// nodeRows are the things of one node.
type nodeRows[T any] struct {
	node meta.NodeID
	at   time.Time
	rows []T
}

// gathered are lists of the other nodes, asked for when somebody looks and at most once a second.
type gathered[T any] struct {
	kind uint64
	each func(*pack, *T)

	mu sync.Mutex // held while asking, so that others wait for the same answers
	at time.Time
	of []nodeRows[T] // by node
}

// rows returns the lists of the other nodes. They must not be changed.
func (g *gathered[T]) rows(p *peers) []nodeRows[T] {
	nodes := p.others()
	if len(nodes) == 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.at.IsZero() || now.Sub(g.at) >= gatheredFor {
		replies, _ := p.askAll(p.ctx, question{kind: g.kind})
		g.of = merge(g.of, readReplies(replies, g.each), now)
		g.at = time.Now()
	}
	out := make([]nodeRows[T], 0, len(g.of))
	for _, n := range g.of {
		if slices.Contains(nodes, n.node) {
			out = append(out, n)
		}
	}
	return out
}

// forget drops lists that nobody looks at any more.
func (g *gathered[T]) forget(now time.Time) {
	if !g.mu.TryLock() {
		return
	}
	defer g.mu.Unlock()
	if now.Sub(g.at) >= lookedAt {
		g.of = nil
	}
}

// readReplies reads what the nodes answered; what cannot be read is no answer.
func readReplies[T any](replies []reply, each func(*pack, *T)) []nodeRows[T] {
	out := make([]nodeRows[T], 0, len(replies))
	for _, r := range replies {
		n := nodeRows[T]{node: r.node, at: time.Now()}
		in := unpack(r.body)
		if packRows(in, &n.rows, each); in.in.Err() == nil {
			out = append(out, n)
		}
	}
	return out
}

// merge replaces the lists of nodes that answered and keeps those of others that are not old yet.
func merge[T any](old, fresh []nodeRows[T], now time.Time) []nodeRows[T] {
	for _, n := range old {
		if now.Sub(n.at) < gatheredKept && !slices.ContainsFunc(fresh, func(f nodeRows[T]) bool { return f.node == n.node }) {
			fresh = append(fresh, n)
		}
	}
	slices.SortFunc(fresh, func(a, b nodeRows[T]) int { return int(a.node) - int(b.node) })
	return fresh
}

// forget drops what nobody looks at any more.
func (p *peers) forget(now time.Time) {
	p.connections.forget(now)
	p.channels.forget(now)
	p.consumers.forget(now)
	p.traffic.forget(now)
	p.exchanges.forget(now)
}

// located is a thing with the node where it is.
type located[T any] struct {
	*shipped[T]
	node meta.NodeID
}

// trend is that of a thing which came with its samples, or without.
func (l *located[T]) trend() trend {
	if l.past == nil {
		return trend{rates: l.rates}
	}
	return trend{l.rates, &past{list: l.past, loaded: true}}
}

// everywhere puts this node's things and those of others together, in order of the nodes' ids.
func everywhere[T any](self meta.NodeID, own []shipped[T], others []nodeRows[shipped[T]]) []located[T] {
	n := len(own)
	for i := range others {
		n += len(others[i].rows)
	}
	out := make([]located[T], 0, n)
	add := func(node meta.NodeID, rows []shipped[T]) {
		for i := range rows {
			out = append(out, located[T]{&rows[i], node})
		}
	}
	placed := false
	for _, o := range others {
		if !placed && o.node > self {
			add(self, own)
			placed = true
		}
		add(o.node, o.rows)
	}
	if !placed {
		add(self, own)
	}
	return out
}

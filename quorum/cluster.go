package quorum

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum/link"
	"github.com/warrenmq/warren/quorum/transport"
)

// Cluster tells Open how the node reaches others. Without a Listener it runs alone.
type Cluster struct {
	// Listener is the node's cluster port.
	Listener net.Listener
	// Dial opens connections to other nodes; TCP if nil.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Secret is what nodes prove to each other; without one nobody joins and nobody is joined.
	Secret []byte
	// TLS, if set, has the nodes speak mutual TLS; see transport.Config.
	TLS func() *tls.Config
	// Join are addresses of nodes to join; they count in an empty data directory only.
	Join []string
	// Filter decides in tests what becomes of Raft messages on their way to another node; see transport.Config.
	Filter func(from, to uint64, batch pb.MessageBatch) []pb.MessageBatch
}

// openNetwork opens the cluster port and the conversation with the nodes that are known.
func (h *Host) openNetwork() error {
	id := h.cfg.Dir.Identity()
	net, err := transport.Open(transport.Config{
		Node: id.NodeID, Cluster: id.ClusterID, Boot: transport.Boot{Counter: h.boot.Counter, Nonce: h.boot.Nonce}, Secret: h.cfg.Cluster.Secret,
		Listener: h.cfg.Cluster.Listener, Dial: h.cfg.Cluster.Dial, Resolve: h.peers.resolve, TLS: h.cfg.Cluster.TLS, Log: h.log,
		Filter: h.cfg.Cluster.Filter,
	})
	if err != nil {
		return err
	}
	h.net = net
	dial := func(ctx context.Context, to link.Node) (link.Conn, error) {
		l, err := net.DialLink(ctx, uint64(to))
		if err != nil {
			return nil, err
		}
		if err := l.Send(append([]byte{helloFrame}, h.cfg.Address...)); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		return linkConn{l}, nil
	}
	h.mux = link.New(link.Node(id.NodeID), dial, (*dispatcher)(h), h.peerChanged, h.peerRefused, h.log)
	return nil
}

// converse begins to talk with the other nodes, now that this node's replica of the catalogue can answer.
func (h *Host) converse() {
	h.net.OnLink(h.acceptLink)
	h.net.OnJoin(h.answerJoin)
	h.welcome.since = h.clock.monotonicMillis()
	for _, n := range h.peers.nodes() {
		h.mux.Watch(n.Token)
	}
}

// helloFrame begins the first frame of a link: the address at which its maker says it is reached.
const helloFrame = 1

// linkConn is a transport link as package link sees it.
type linkConn struct{ *transport.Link }

// Peer is the node at the other end.
func (c linkConn) Peer() link.Node { return link.Node(c.Link.Peer().Node) }

// Heard is when something last arrived.
func (c linkConn) Heard() time.Time { return c.LastHeard() }

func (h *Host) acceptLink(l *transport.Link) {
	hello, err := l.Receive()
	if err != nil || len(hello) == 0 || hello[0] != helloFrame {
		_ = l.Close()
		return
	}
	peer := l.Peer()
	h.learn(link.Node(peer.Node), toldAddress{peer.Boot.Counter, string(hello[1:])})
	h.mux.Accept(linkConn{l})
}

// learn notes where a node listens. News goes on to all others: two nodes that moved while they were apart find each other through any third one.
func (h *Host) learn(node link.Node, a toldAddress) {
	if !h.peers.tell(node, a) {
		return
	}
	h.mux.Retry(node)
	payload := appendTold(codec.AppendUvarint(nil, 1), node, a)
	for _, n := range h.peers.nodes() {
		if n.ID != h.node && n.Token != node {
			h.send(n.ID, messageAddresses, payload)
		}
	}
}

// peerChanged is told when the connection to another node comes or goes.
func (h *Host) peerChanged(node link.Node, up bool) {
	if up {
		h.welcome.accepted(node)
		h.log.Info("connected to a node", "node", h.nodeName(node))
	} else {
		h.log.Info("lost the connection to a node", "node", h.nodeName(node))
	}
	h.elections.noticed()
	if up {
		_ = h.mux.Send(node, messageAddresses, h.peers.appendTold(nil)) // if it is lost, the connection is
		id, _ := h.peers.id(node)
		h.slots.Range(func(_, v any) bool {
			v.(*slot).peerUp(id)
			return true
		})
	}
}

// peerRefused is told that another node could not be reached. Where nothing listens any more no process holds a lease (PROTOCOL 5).
func (h *Host) peerRefused(node link.Node, err error) {
	if id, ok := h.peers.id(node); ok && errors.Is(err, syscall.ECONNREFUSED) {
		h.cat.leases.end(id)
	}
	if errors.Is(err, transport.ErrSecret) {
		h.secretRefused(node, err)
	}
}

// welcome is what became of this node's secret at the others.
type welcome struct {
	since   int64       // when it was first shown, on the monotonic clock
	found   atomic.Bool // a node took it
	refused sync.Map    // link.Node -> true: those that refused it since they last took it
}

func (w *welcome) accepted(node link.Node) {
	w.found.Store(true)
	w.refused.Delete(node)
}

// secretRefused says that another node has another secret, once. A node that starts and is taken by nobody ends: it would wait for ever.
func (h *Host) secretRefused(node link.Node, err error) {
	w := &h.welcome
	addr, _ := h.peers.resolve(transport.Target(h.cfg.Dir.Identity().ClusterID, uint64(node)))
	if _, told := w.refused.LoadOrStore(node, true); !told {
		h.log.Error("the cluster secret of another node is another one", "node", h.nodeName(node), "address", addr, "error", err)
	}
	if !h.started.Load() && !w.found.Load() && h.clock.monotonicMillis()-w.since >= limits.SecretMillis {
		h.report(&JoinError{Address: addr, Err: err})
	}
}

// nodeName names a node in logs.
func (h *Host) nodeName(token link.Node) string {
	if id, ok := h.peers.id(token); ok {
		if n := h.Catalogue().View.Node(id); n != nil {
			return n.Name
		}
	}
	return fmt.Sprintf("%016x", uint64(token))
}

// call asks another node.
func (h *Host) call(ctx context.Context, node meta.NodeID, kind link.Kind, request []byte) ([]byte, error) {
	token, ok := h.peers.token(node)
	if !ok || h.mux == nil {
		return nil, link.ErrDown
	}
	return h.mux.Call(ctx, token, kind, request)
}

// ask asks another node and does not wait.
func (h *Host) ask(node meta.NodeID, kind link.Kind, request []byte, answer func([]byte, error)) {
	token, ok := h.peers.token(node)
	if !ok || h.mux == nil {
		answer(nil, link.ErrDown)
		return
	}
	h.mux.Ask(token, kind, request, answer)
}

// send sends another node a one-way message, which may be lost.
func (h *Host) send(node meta.NodeID, kind link.Kind, payload []byte) {
	if token, ok := h.peers.token(node); ok && h.mux != nil {
		_ = h.mux.Send(token, kind, payload)
	}
}

// OnAsk sets what answers the questions that other nodes ask through AskNode; management uses it for facts that only a node itself has. It may be called by several at a time.
func (h *Host) OnAsk(f func(question []byte) ([]byte, error)) { h.facts.Store(&f) }

// AskNode asks the shells above quorum on another node. The error is a *link.RemoteError with the other node's reason, or says that the node cannot be reached.
func (h *Host) AskNode(ctx context.Context, node meta.NodeID, question []byte) ([]byte, error) {
	if node == h.node {
		return h.serveFacts(question)
	}
	return h.call(ctx, node, callFacts, question)
}

func (h *Host) serveFacts(question []byte) ([]byte, error) {
	f := h.facts.Load()
	if f == nil {
		return nil, errors.New("the node is starting")
	}
	return (*f)(question)
}

// Tell sends the shells above quorum on all other nodes that are up a message, which may be lost.
func (h *Host) Tell(payload []byte) {
	for _, n := range h.peers.nodes() {
		if n.ID != h.node && h.up(n.ID) {
			h.send(n.ID, messageShell, payload)
		}
	}
}

// TellNode sends the shells above quorum on one other node a message, which may be lost.
func (h *Host) TellNode(node meta.NodeID, payload []byte) { h.send(node, messageShell, payload) }

// AskTold asks the shell above quorum on another node that OnAsked has set; the broker does it, while AskNode is for management.
func (h *Host) AskTold(ctx context.Context, node meta.NodeID, question []byte) ([]byte, error) {
	return h.call(ctx, node, callShell, question)
}

// OnAsked sets what answers AskTold. It is called by several at a time, and may use the question during the call only.
func (h *Host) OnAsked(f func(question []byte) (answer []byte)) { h.asked.Store(&f) }

func (h *Host) serveShell(question []byte) ([]byte, error) {
	f := h.asked.Load()
	if f == nil {
		return nil, errors.New("the node is starting")
	}
	return (*f)(question), nil
}

// OnTold sets what takes the messages of Tell. It is called by several at a time, must not block, and may use the payload during the call only.
func (h *Host) OnTold(f func(node meta.NodeID, payload []byte)) { h.told.Store(&f) }

// Clustered tells whether there are other nodes.
func (h *Host) Clustered() bool { return len(h.peers.nodes()) > 1 }

// NodeUp tells whether a node is heard; this one always is.
func (h *Host) NodeUp(node meta.NodeID) bool { return h.up(node) }

// up tells whether another node is heard; this one always is.
func (h *Host) up(node meta.NodeID) bool {
	if node == h.node {
		return true
	}
	token, ok := h.peers.token(node)
	return ok && h.mux != nil && h.mux.Up(token)
}

// dispatcher is the host as other nodes see it.
type dispatcher Host

var _ link.Handler = (*dispatcher)(nil)

// Call answers the questions of other nodes.
func (d *dispatcher) Call(from link.Node, kind link.Kind, request []byte, answer func([]byte, error)) {
	h := (*Host)(d)
	node, ok := h.peers.id(from)
	if !ok {
		if h.wasReplaced(from) {
			answer(nil, ErrReplaced)
			return
		}
		answer(nil, errors.New("the node is not known here yet"))
		return
	}
	switch kind {
	case callDo:
		go func() { answer(h.cat.serveDo(request)) }()
	case callLease:
		answer(h.cat.serveLease(node, request))
	case callStart:
		answer(h.serveStart(request))
	case callPropose:
		h.servePropose(request, answer)
	case callCommand:
		go func() { answer(h.serveCommand(request)) }()
	case callStatus:
		answer(h.serveStatus(request))
	case callMember:
		go func() { answer(h.serveMember(request)) }()
	case callReached:
		go func() { answer(h.serveReached(request)) }()
	case callRest:
		go func() { answer(h.serveRest(request)) }()
	case callReplica:
		answer(h.serveReplica(request))
	case callShell:
		go func() { answer(h.serveShell(request)) }()
	case callFacts:
		go func() { answer(h.serveFacts(request)) }()
	default:
		answer(nil, fmt.Errorf("question %d is not understood by this version", kind))
	}
}

// ErrReplaced says that another node took over this one's name while it was away; its data directory is of no use to the cluster any more.
var ErrReplaced = errors.New("another node has taken this node's place in the cluster; start with an empty data directory")

// wasReplaced tells whether a node that is not known any more was replaced.
func (h *Host) wasReplaced(token link.Node) bool {
	for n := range h.Catalogue().View.Nodes() {
		if link.Node(n.Token) == token {
			return n.Replaced
		}
	}
	return false
}

// Message takes the one-way messages of other nodes.
func (d *dispatcher) Message(from link.Node, kind link.Kind, payload []byte) {
	h := (*Host)(d)
	node, ok := h.peers.id(from)
	if !ok {
		return
	}
	r := codec.NewReader(payload)
	switch kind {
	case messageApplied:
		h.cat.leases.applied(node, r.Uvarint())
	case messageStarted:
		q, want, led := meta.QueueID(r.Uvarint()), r.Bool(), r.Bool()
		h.memberStarted(node, q, want, led)
	case messageSilent:
		list := make([]meta.NodeID, 0, r.Count(1))
		for range cap(list) {
			list = append(list, meta.NodeID(r.Uvarint()))
		}
		h.elections.reported(node, list)
	case messageProgress:
		h.progressed(node, &r)
	case messageBehind:
		h.leftBehind(meta.QueueID(r.Uvarint()))
	case messageShell:
		if f := h.told.Load(); f != nil {
			(*f)(node, payload)
		}
	case messageAddresses:
		for range r.Count(toldBytesMin) {
			about, a := link.Node(r.Uint64()), toldAddress{r.Uvarint(), r.String()}
			if _, ok := h.peers.id(about); ok && r.Err() == nil {
				h.learn(about, a)
			}
		}
	}
}

// Stream begins to serve an attachment of another node.
func (d *dispatcher) Stream(_ link.Node, kind link.Kind, request []byte, stream *link.Stream) {
	h := (*Host)(d)
	if kind != streamAttach {
		stream.Close()
		return
	}
	r := codec.NewReader(request)
	q, req := readAttach(&r)
	if r.Err() != nil {
		stream.Close()
		return
	}
	h.serveAttach(q, req, stream)
}

// join asks the nodes at the given addresses until one takes this node in.
func (h *Host) joinCluster(ctx context.Context) error {
	request := h.joinRequest(h.cfg.Dir.Identity().NodeID)
	for try := 0; ; try++ {
		addr := h.cfg.Cluster.Join[try%len(h.cfg.Cluster.Join)]
		response, err := transport.Join(ctx, h.cfg.Cluster.Dial, addr, h.cfg.Cluster.Secret, h.cfg.Cluster.TLS, request)
		if err == nil {
			return h.joined(response)
		}
		var refused *transport.RefusedError
		var no *transport.JoinError
		later := errors.As(err, &no) && no.Text == errJoinLater.Error() || errors.Is(err, transport.ErrNotReady) || errors.Is(err, transport.ErrCrowded)
		if !later && (errors.As(err, &refused) || errors.As(err, &no) || errors.Is(err, transport.ErrCertificate)) {
			return &JoinError{Address: addr, Err: err}
		}
		h.log.Warn("the node to join does not answer and will be asked again", "address", addr, "error", err)
		if err := h.wait(limits.LinkRedialMillis*time.Millisecond, ctx.Done()); err != nil {
			return fmt.Errorf("no node to join answered: %w", ctx.Err())
		}
	}
}

// joinRequest is what a node says of itself when it joins.
func (h *Host) joinRequest(nodeID uint64) []byte {
	request := codec.AppendUint64(nil, nodeID)
	request = codec.AppendString(request, h.cfg.Name)
	request = codec.AppendString(request, h.cfg.Address)
	return codec.AppendUvarint(request, machineVersion)
}

func nameInUse(name string) error {
	return fmt.Errorf("a node that is not dead has the name %s already", name)
}

// errJoinLater says that the cluster cannot take anybody in now.
var errJoinLater = errors.New("the catalogue has no majority now")

// JoinError says that a cluster does not take this node in.
type JoinError struct {
	// Address is the node that was asked, empty if the node was in the cluster before.
	Address string
	// Err is its reason.
	Err error
}

// Error names the address and the reason.
func (e *JoinError) Error() string {
	if e.Address == "" {
		return fmt.Sprintf("the cluster refuses this node: %v", e.Err)
	}
	return fmt.Sprintf("the cluster at %s refuses this node: %v", e.Address, e.Err)
}

// Unwrap returns the reason.
func (e *JoinError) Unwrap() error { return e.Err }

// joined takes the answer to a join.
func (h *Host) joined(response []byte) error {
	r := codec.NewReader(response)
	clusterID := r.Uint64()
	list := readPeers(&r)
	if r.Err() != nil {
		return fmt.Errorf("the answer to the join cannot be read: %w", r.Err())
	}
	if err := h.cfg.Dir.Adopt(clusterID); err != nil {
		return err
	}
	return h.peers.save(list)
}

// joinBoot is the incarnation under which a node joins: it never runs, but it is alive until the node's first one is registered or the cluster misses it, so that no other node gets its name meanwhile.
func joinBoot(token uint64) meta.Boot { return meta.Boot{Counter: 1, Nonce: token} }

// answerJoin takes a node into the cluster.
func (h *Host) answerJoin(request []byte) ([]byte, error) {
	r := codec.NewReader(request)
	n := meta.Node{Token: r.Uint64(), Name: r.String(), Address: r.String(), MachineVersion: uint32(r.Uvarint())}
	if r.Err() != nil || n.Token == 0 || n.Name == "" {
		return nil, errors.New("the request to join cannot be read")
	}
	if r.Len() > 0 && r.Bool() { // nobody told it to begin anew
		if err := mayReplace(h.Catalogue().View, n.Name); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(h.life, limits.PublishTimeoutMillis*time.Millisecond)
	defer cancel()
	n.Boot = joinBoot(n.Token)
	replies, err := h.Do(ctx, meta.Command{Op: meta.OpRegisterNode, Node: n})
	if err != nil {
		return nil, errJoinLater
	}
	switch replies[0].Reason {
	case meta.ReasonOK:
	case meta.ReasonNameInUse:
		return nil, nameInUse(n.Name)
	default:
		return nil, fmt.Errorf("the catalogue refuses the node: %v", replies[0].Reason)
	}
	list := peerList{Self: meta.NodeID(replies[0].ID)}
	for other := range h.Catalogue().View.Nodes() {
		if !other.Replaced {
			list.Nodes = append(list.Nodes, peerNode{ID: other.ID, Token: link.Node(other.Token), Address: other.Address})
		}
	}
	h.log.Info("a node joins the cluster", "node", n.Name, "address", n.Address)
	return appendPeers(codec.AppendUint64(nil, h.cfg.Dir.Identity().ClusterID), &list), nil
}

// serveStart starts a queue's replica for another node, and tells whether one runs here and which node leads.
func (h *Host) serveStart(request []byte) ([]byte, error) {
	r := codec.NewReader(request)
	id := meta.QueueID(r.Uvarint())
	s, err := h.slot(id)
	if err != nil {
		return nil, err
	}
	h.touch(id)
	running, leader := s.leader()
	return codec.AppendUvarint(codec.AppendBool(nil, running), uint64(leader)), nil
}

// servePropose takes a batch of another node to the leader here.
func (h *Host) servePropose(request []byte, answer func([]byte, error)) {
	r := codec.NewReader(request)
	id := meta.QueueID(r.Uvarint())
	buf := r.Rest()
	var b queue.Batch
	if queue.ValidateBatch(buf) != nil || queue.DecodeBatch(buf, &b) != nil {
		answer([]byte{proposeMistaken}, nil)
		return
	}
	s, err := h.slot(id)
	if err != nil {
		answer([]byte{proposeLost}, nil)
		return
	}
	h.touch(id)
	switch run := s.runner().(type) {
	case *group:
		run.proposeFor(b.Pipeline, b.K, buf, answer)
	case *local:
		_, _, err := run.propose(b.Pipeline, b.K, buf)
		if err != nil {
			answer([]byte{proposeLost}, nil)
			return
		}
		answer([]byte{proposeApplied}, nil)
	default:
		answer(codec.AppendUvarint([]byte{proposeNotHere}, 0), nil)
	}
}

// serveCommand applies a command outside pipelines for another node.
func (h *Host) serveCommand(request []byte) ([]byte, error) {
	r := codec.NewReader(request)
	id := meta.QueueID(r.Uvarint())
	var cmd queue.Command
	if _, err := queue.DecodeCommand(r.Rest(), &cmd); err != nil {
		return nil, err
	}
	s, err := h.slot(id)
	if err != nil {
		return nil, err
	}
	h.touch(id)
	var reply queue.Reply
	switch run := s.runner().(type) {
	case *group:
		reply, err = run.lead(&cmd)
	case *local:
		reply, err = run.command(&cmd)
	default:
		err = errElsewhere
	}
	if err != nil {
		return nil, err
	}
	return appendReply(nil, reply), nil
}

// serveStatus tells another node how a queue is here.
func (h *Host) serveStatus(request []byte) ([]byte, error) {
	r := codec.NewReader(request)
	s, err := h.slot(meta.QueueID(r.Uvarint()))
	if err != nil {
		return nil, err
	}
	run := s.runner()
	if run == nil {
		return nil, errElsewhere
	}
	st := run.status()
	return appendStatus(nil, &st), nil
}

// serveAttach streams a queue to another node.
func (h *Host) serveAttach(id meta.QueueID, req attachRequest, stream *link.Stream) {
	s, err := h.slot(id)
	if err != nil {
		stream.Close()
		return
	}
	h.touch(id)
	run := s.runner()
	if run == nil {
		stream.Close()
		return
	}
	if _, ok := run.(*remote); ok || !run.core().serves() {
		stream.Close() // it is not here, or not ready: the node asks again
		return
	}
	go func() {
		out := &outlet{stream: stream}
		a := run.core().serve(req, out)
		if a == nil {
			stream.Close()
			return
		}
		<-stream.Done()
		run.core().detach(a)
	}()
}

// outlet sends the stream of an attachment to another node. A connection that is too slow for it ends the stream; the node attaches again.
type outlet struct{ stream *link.Stream }

var _ sink = (*outlet)(nil)

// Items of an attachment's stream.
const (
	itemSync   = 1
	itemEvents = 2
	itemRested = 3
)

func (o *outlet) synced(st queue.SyncState, deliveries []event, index uint64) {
	if !st.Evicted {
		deliveries, st.Outcomes = outcomesBehind(deliveries, st.Outcomes), nil
	}
	if o.stream.Send(appendSync(codec.AppendUvarint([]byte{itemSync}, index), &st)) != nil {
		o.stream.Close()
		return
	}
	o.events(deliveries, index)
}

// events sends runs of at most limits.LinkEventBytes, or one event.
func (o *outlet) events(evs []event, index uint64) {
	for len(evs) > 0 {
		n, bytes := 0, 0
		for n < len(evs) && (n == 0 || bytes+len(evs[n].envelope) < limits.LinkEventBytes) {
			bytes += len(evs[n].envelope)
			n++
		}
		reached := uint64(0) // with the last run only
		if n == len(evs) {
			reached = index
		}
		head := codec.AppendUvarint(append(make([]byte, 0, bytes+64*n), itemEvents), reached)
		if o.stream.Send(appendEvents(head, evs[:n])) != nil {
			o.stream.Close()
			return
		}
		evs = evs[n:]
	}
}

func (o *outlet) stop() { o.stream.Close() }

func (o *outlet) rested() {
	_ = o.stream.Send([]byte{itemRested}) // if it is lost, so is the connection, and the node looks for the queue
	o.stream.Close()
}

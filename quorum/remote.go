package quorum

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum/link"
)

// remote stands for a queue that has no replica on this node: batches and commands go to its leader's node, and that node serves.
type remote struct {
	host *Host
	q    *meta.Queue

	mu      sync.Mutex
	leader  meta.NodeID // 0: not known
	away    *group      // the node's own replica, which this stands in for while it is behind
	finding bool
	losing  bool // lost is about to come
	stream  *link.Stream
	streamN uint64 // counts attaches and ends, so that the end of an old stream is told from that of the present one
}

var _ target = (*remote)(nil)
var _ runner = (*remote)(nil)

func newRemote(h *Host, q *meta.Queue) *remote { return &remote{host: h, q: q, leader: q.Home} }

// find asks the members who leads, starting the queue by it, until one knows; then the node's pipeline attaches there.
func (r *remote) find() {
	r.mu.Lock()
	if r.finding {
		r.mu.Unlock()
		return
	}
	r.finding = true
	r.mu.Unlock()
	go func() {
		leader := r.search()
		r.mu.Lock()
		r.leader, r.finding = leader, false
		r.mu.Unlock()
		if leader != 0 {
			r.host.serve(r.q.ID, r)
		}
	}()
}

func (r *remote) search() meta.NodeID {
	request := codec.AppendUvarint(nil, uint64(r.q.ID))
	for pause := findLeaderFirst; ; pause = min(2*pause, limits.FindLeaderMillis*time.Millisecond) {
		q := r.host.Catalogue().View.QueueByID(r.q.ID)
		if q == nil {
			return 0
		}
		if !q.Durable {
			if _, err := r.askStart(q.Home, request); err == nil {
				return q.Home
			}
		}
		for _, m := range q.Members {
			if leader, err := r.askStart(m.Node, request); err == nil && leader != 0 && r.host.up(leader) {
				return leader
			}
		}
		if r.host.wait(pause, nil) != nil {
			return 0
		}
	}
}

// findLeaderFirst is the first pause between two attempts to find a leader: a queue that was parked has one soon.
const findLeaderFirst = 2 * time.Millisecond

func (r *remote) askStart(node meta.NodeID, request []byte) (leader meta.NodeID, err error) {
	ctx, cancel := context.WithTimeout(r.host.life, limits.LinkDialMillis*time.Millisecond)
	defer cancel()
	answer, err := r.host.call(ctx, node, callStart, request)
	if err != nil {
		return 0, err
	}
	in := codec.NewReader(answer)
	in.Bool()
	leader = meta.NodeID(in.Uvarint())
	return leader, in.Err()
}

func (r *remote) known() meta.NodeID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leader
}

// loseSoon has lost run after a pause, once for all calls meanwhile: every batch of a window may be refused.
func (r *remote) loseSoon(leader meta.NodeID, pauseMillis int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.losing || r.leader != leader {
		return
	}
	r.losing = true
	r.host.later(time.Duration(pauseMillis)*time.Millisecond, func() {
		r.mu.Lock()
		r.losing = false
		r.mu.Unlock()
		r.lost(leader)
	})
}

// lost forgets a leader that does not lead any more, or is not heard.
func (r *remote) lost(leader meta.NodeID) {
	if r.away != nil {
		r.host.serve(r.q.ID, r.away)
		return
	}
	r.mu.Lock()
	if r.leader == leader {
		r.leader = 0
	}
	r.mu.Unlock()
	r.find()
}

func (r *remote) propose(p queue.PipelineID, k uint64, buf []byte) (ticket, bool, error) {
	leader := r.known()
	if leader == 0 {
		r.find()
		return nil, false, errNotReady
	}
	t := forward(r.host, leader, r.q.ID, buf, func(meta.NodeID) {
		r.loseSoon(leader, limits.GapRetryMillis) // it may be called by others and not know it yet
	})
	return t, false, nil
}

// reset has nothing to forget: the leader's node remembers.
func (r *remote) reset(queue.PipelineID) {}

// attach opens the stream from the leader's node.
func (r *remote) attach(req attachRequest, to sink) bool {
	leader := r.known()
	r.mu.Lock()
	old := r.stream
	r.stream = nil
	r.streamN++
	n := r.streamN
	r.mu.Unlock()
	if old != nil {
		old.Close()
	}
	token, ok := r.host.peers.token(leader)
	if !ok {
		r.find()
		return false
	}
	in := &inflow{to: to, node: req.pipeline.Node, boot: req.pipeline.Boot.Counter, rested: func() { r.rested(n) }}
	st, err := r.host.mux.Open(token, streamAttach, appendAttach(nil, r.q.ID, &req), in.item, func(error) {
		to.stop()
		r.ended(n, leader)
	})
	if err != nil { // closed has been called, or there is no connection
		r.ended(n, leader)
		return false
	}
	r.mu.Lock()
	current := r.streamN == n
	if current {
		r.stream = st
	}
	r.mu.Unlock()
	if !current {
		st.Close() // another attach or the end came between
	}
	return true
}

// inflow takes the stream that an outlet sends.
type inflow struct {
	to   sink
	node queue.NodeID
	boot uint64
	// rested is called when the queue is parked there.
	rested func()
}

func (in *inflow) item(payload []byte) {
	if len(payload) == 0 {
		return
	}
	if payload[0] == itemRested {
		in.to.rested()
		in.rested()
		return
	}
	r := codec.NewReader(payload[1:])
	index := r.Uvarint()
	switch payload[0] {
	case itemSync:
		if st := readSync(&r); r.Err() == nil {
			in.to.synced(st, nil, index) // the deliveries follow
		}
	case itemEvents:
		if evs := readEvents(&r, in.node, in.boot); r.Err() == nil {
			in.to.events(evs, index)
		}
	}
}

// ended looks for the leader again when stream n, the present one, has ended; one that was replaced or closed is nobody's loss.
func (r *remote) ended(n uint64, leader meta.NodeID) {
	r.mu.Lock()
	current := r.streamN == n
	if current {
		r.stream = nil
		r.streamN++
	}
	r.mu.Unlock()
	if current {
		r.loseSoon(leader, limits.FindLeaderMillis)
	}
}

// rested is told that stream n has ended because the queue is parked: its end is no reason to look for the leader, which would start it.
func (r *remote) rested(n uint64) {
	r.mu.Lock()
	current := r.streamN == n
	if current {
		r.stream = nil
		r.streamN++
	}
	r.mu.Unlock()
	if current && r.away == nil { // else the node's own replica will stop, too
		r.host.restRemote(r)
	}
}

// command hands a command outside pipelines to the leader's node.
func (r *remote) command(cmd *queue.Command) (queue.Reply, error) {
	return commandAt(r.host, r.known(), r.q.ID, cmd)
}

// commandAt has another node apply a command outside pipelines.
func commandAt(h *Host, node meta.NodeID, q meta.QueueID, cmd *queue.Command) (queue.Reply, error) {
	if node == 0 {
		return queue.Reply{}, errNotReady
	}
	ctx, cancel := context.WithTimeout(h.life, limits.PublishTimeoutMillis*time.Millisecond)
	defer cancel()
	answer, err := h.call(ctx, node, callCommand, queue.AppendCommand(codec.AppendUvarint(nil, uint64(q)), cmd))
	if err != nil {
		return queue.Reply{}, err
	}
	return decodeReply(answer)
}

// close ends the stream.
func (r *remote) close() {
	r.mu.Lock()
	st := r.stream
	r.stream = nil
	r.streamN++
	r.mu.Unlock()
	if st != nil {
		st.Close()
	}
}

// status asks the leader's node.
func (r *remote) status() QueueStatus {
	leader := r.known()
	st := QueueStatus{State: StateStarting, Leader: leader}
	if q := r.host.Catalogue().View.QueueByID(r.q.ID); q != nil {
		st.Members = memberNodes(q)
	}
	if leader == 0 {
		return st
	}
	ctx, cancel := context.WithTimeout(r.host.life, limits.StatusMillis*time.Millisecond)
	defer cancel()
	answer, err := r.host.call(ctx, leader, callStatus, codec.AppendUvarint(nil, uint64(r.q.ID)))
	if err != nil {
		st.Reason = err.Error()
		return st
	}
	in := codec.NewReader(answer)
	if got := readStatus(&in); in.Err() == nil {
		return got
	}
	return st
}

// core is nil: nothing of the queue is here.
func (r *remote) core() *replica { return nil }

// forwarded is the ticket of a batch that another node proposes.
type forwarded struct{ state atomic.Int32 }

const (
	forwardedWaiting = 0
	forwardedApplied = 1
	forwardedLost    = 2
)

func (t *forwarded) lost() bool { return t.state.Load() == forwardedLost }

// resendSoon has this node's pipeline to a queue sent again after a pause: the leader did not take a batch.
func (h *Host) resendSoon(q meta.QueueID) {
	if v, ok := h.slots.Load(q); ok {
		v.(*slot).pipe.resendSoon()
	}
}

// forward hands a batch to the leader's node. wrong is called when that node does not lead (with the one that it names, or 0) or cannot be reached.
func forward(h *Host, leader meta.NodeID, q meta.QueueID, buf []byte, wrong func(leader meta.NodeID)) ticket {
	t := new(forwarded)
	request := append(codec.AppendUvarint(make([]byte, 0, len(buf)+10), uint64(q)), buf...)
	h.ask(leader, callPropose, request, func(answer []byte, err error) {
		if err != nil || len(answer) == 0 || answer[0] != proposeApplied {
			defer h.resendSoon(q)
		}
		switch {
		case errors.Is(err, link.ErrBusy):
			t.state.Store(forwardedLost)
			return
		case err != nil || len(answer) == 0:
			t.state.Store(forwardedLost)
			wrong(0)
			return
		}
		switch answer[0] {
		case proposeApplied:
			t.state.Store(forwardedApplied)
		case proposeNotHere:
			t.state.Store(forwardedLost)
			r := codec.NewReader(answer[1:])
			wrong(meta.NodeID(r.Uvarint()))
		default:
			t.state.Store(forwardedLost)
		}
	})
	return t
}

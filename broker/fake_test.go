package broker

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/exchange"
	"github.com/warrenmq/warren/internal/machine"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// fakeHost runs the real catalogue and queue machines without Raft and without a disk.
type fakeHost struct {
	telling  sync.Mutex
	mu       sync.Mutex
	m        *meta.Machine
	index    uint64
	watchers []func([]meta.Effect)
	queues   map[meta.QueueID]*fakeQueue
	ended    map[meta.QueueID]*fakeQueue // deleted, and asked still about transactions
	cat      atomic.Pointer[quorum.Catalogue]
	sessions atomic.Uint64
	doDelay  chan struct{} // if set, Do waits for it
	// parked makes QueueStatus answer parked for queues that nothing touched.
	parked bool
}

const (
	fakeNode    = meta.NodeID(1)
	testUser    = "guest"
	testVHost   = "/"
	limitedUser = "limited"
)

var fakeBoot = meta.Boot{Counter: 1, Nonce: 7}

func newFakeHost(tb testing.TB) *fakeHost {
	tb.Helper()
	h := &fakeHost{m: meta.New(), queues: make(map[meta.QueueID]*fakeQueue), ended: make(map[meta.QueueID]*fakeQueue)}
	h.cat.Store(&quorum.Catalogue{View: h.m.View(), Router: exchange.Compile(h.m.View(), exchange.Node{})})
	hash := meta.HashPassword([4]byte{1, 2, 3, 4}, []byte("guest"))
	replies, err := h.Do(context.Background(),
		meta.Command{Op: meta.OpFound, Text: "1", Name: "test cluster"},
		meta.Command{Op: meta.OpRegisterNode, Node: meta.Node{Name: "rabbit@test", Address: "localhost:1", Token: 1, MachineVersion: 1}},
		meta.Command{Op: meta.OpRegisterBoot, Node: meta.Node{ID: fakeNode, Boot: fakeBoot}},
		meta.Command{Op: meta.OpPutVHost, VHost: meta.VHost{Name: testVHost}},
		meta.Command{Op: meta.OpPutVHost, VHost: meta.VHost{Name: "closed"}},
		meta.Command{Op: meta.OpPutUser, User: meta.User{Name: testUser, PasswordHash: hash, Tags: []string{"administrator"}}},
		meta.Command{Op: meta.OpPutUser, User: meta.User{Name: limitedUser, PasswordHash: hash}},
		meta.Command{Op: meta.OpPutPermission, Permission: meta.Permission{User: testUser, VHost: testVHost, Configure: ".*", Write: ".*", Read: ".*"}},
		meta.Command{Op: meta.OpPutPermission, Permission: meta.Permission{User: limitedUser, VHost: testVHost, Configure: "^mine", Write: "^mine|^amq.topic$", Read: "^mine|^amq.topic$"}},
	)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range replies {
		if replies[i].Reason != meta.ReasonOK {
			tb.Fatalf("founding command %d: %v", i, replies[i].Reason)
		}
	}
	return h
}

func (h *fakeHost) Catalogue() *quorum.Catalogue { return h.cat.Load() }
func (h *fakeHost) Node() meta.NodeID            { return fakeNode }
func (h *fakeHost) Boot() meta.Boot              { return fakeBoot }

func (h *fakeHost) OnChange(f func([]meta.Effect)) {
	h.mu.Lock()
	h.watchers = append(h.watchers, f)
	h.mu.Unlock()
}

func (h *fakeHost) Do(ctx context.Context, cmds ...meta.Command) ([]meta.Reply, error) {
	h.mu.Lock()
	if wait := h.doDelay; wait != nil {
		h.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, quorum.ErrNoCatalogue
		}
		h.mu.Lock()
	}
	h.index++
	var replies []meta.Reply
	var effects []meta.Effect
	for i := range cmds {
		var r meta.Reply
		r, effects = h.m.Apply(machine.Stamp{Index: h.index, NowMillis: time.Now().UnixMilli()}, &cmds[i], effects)
		replies = append(replies, r)
	}
	view := h.m.View()
	h.cat.Store(&quorum.Catalogue{View: view, Router: h.cat.Load().Router.Update(view)})
	watchers := h.watchers
	var gone []*fakeQueue
	for i := range effects {
		if e := &effects[i]; e.Kind == meta.QueueDeleted {
			if q := h.queues[e.Queue.ID]; q != nil {
				delete(h.queues, e.Queue.ID)
				h.ended[e.Queue.ID] = q
				gone = append(gone, q)
			}
		}
	}
	h.mu.Unlock()
	for _, q := range gone {
		q.end()
	}
	h.telling.Lock() // watchers are called by one goroutine at a time
	defer h.telling.Unlock()
	for _, f := range watchers {
		f(effects)
	}
	return replies, nil
}

func (h *fakeHost) queue(id meta.QueueID) (*fakeQueue, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if q := h.queues[id]; q != nil {
		return q, nil
	}
	info := h.cat.Load().View.QueueByID(id)
	if info == nil {
		return nil, quorum.ErrNoQueue
	}
	cfg := queue.Config{Version: 1, AutoDelete: info.AutoDelete}
	if v, ok := info.Arguments.Get("x-max-priority"); ok {
		n, _ := v.AsInt64()
		cfg.PriorityMax = uint8(n)
	}
	q := &fakeQueue{
		host: h, id: id, bodies: make(map[queue.Seq][]byte), sessions: make(map[queue.SessionID]*fakeSession),
		m: queue.New(cfg),
	}
	h.queues[id] = q
	return q, nil
}

func (h *fakeHost) QueueStatus(id meta.QueueID) (quorum.QueueStatus, bool) {
	if h.Catalogue().View.QueueByID(id) == nil {
		return quorum.QueueStatus{}, false
	}
	h.mu.Lock()
	q := h.queues[id]
	h.mu.Unlock()
	if q == nil {
		return quorum.QueueStatus{State: quorum.StateParked}, true
	}
	q.runMu.Lock()
	defer q.runMu.Unlock()
	return quorum.QueueStatus{State: quorum.StateRunning, Counts: q.m.Counts()}, true
}

func (h *fakeHost) DeleteQueue(ctx context.Context, id meta.QueueID, cond queue.Condition) (quorum.DeleteResult, error) {
	var res quorum.DeleteResult
	q, err := h.queue(id)
	if err != nil {
		return res, err
	}
	q.runMu.Lock()
	reply := queue.Reply{B: q.m.Counts().Ready}
	if cond != 0 {
		reply, _ = q.m.Apply(machine.Stamp{}, &queue.Command{Op: queue.OpSeal, Condition: cond}, nil)
	}
	q.runMu.Unlock()
	if reply.Code != queue.CodeOK {
		return quorum.DeleteResult{Code: reply.Code}, nil
	}
	res.Messages = reply.B
	replies, err := h.Do(ctx, meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: id}})
	if err == nil && replies[0].Reason == meta.ReasonNoQueue {
		err = quorum.ErrNoQueue
	}
	return res, err
}

func (h *fakeHost) OpenSession(r quorum.Receiver) Session {
	return &fakeSession{host: h, id: queue.SessionID(h.sessions.Add(1)), recv: r, served: make(map[*fakeQueue]bool)}
}

// fakeQueue applies batches in a goroutine that lives as long as there are some.
type fakeQueue struct {
	host *fakeHost
	id   meta.QueueID

	mu       sync.Mutex
	open     *fakeBatch
	mailbox  []*fakeBatch
	running  bool
	frozen   bool // batches wait
	gone     bool
	sessions map[queue.SessionID]*fakeSession

	runMu      sync.Mutex
	m          *queue.Machine
	bodies     map[queue.Seq][]byte
	k          uint64
	effects    []queue.Effect
	cmd        queue.Command
	done       []quorum.Completion
	deliveries []quorum.Delivery
	ticksAt    int64 // when tick comes back, 0: not at all
	deaf       bool  // nobody is told that deliveries were taken back
}

type fakeBatch struct {
	buf     []byte
	count   int
	waiters []fakeWaiter
}

type fakeWaiter struct {
	s     *fakeSession
	token uint64
}

func (q *fakeQueue) submit(s *fakeSession, cmd *queue.Command, token uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return quorum.ErrNoQueue
	}
	if q.open == nil {
		q.open = &fakeBatch{}
	}
	q.sessions[s.id] = s
	b := q.open
	b.buf = queue.AppendCommand(b.buf, cmd)
	b.count++
	b.waiters = append(b.waiters, fakeWaiter{s, token})
	if b.count == limits.BatchCommandsMax || len(b.buf) >= limits.BatchBytesMax {
		q.send()
	}
	return nil
}

// send is called with q.mu held.
func (q *fakeQueue) send() {
	if q.open != nil {
		q.mailbox = append(q.mailbox, q.open)
		q.open = nil
	}
	if len(q.mailbox) > 0 && !q.running && !q.frozen {
		q.running = true
		go q.run()
	}
}

func (q *fakeQueue) flush() {
	q.mu.Lock()
	q.send()
	q.mu.Unlock()
}

// kept is how many bodies are kept.
func (q *fakeQueue) kept() int {
	q.runMu.Lock()
	defer q.runMu.Unlock()
	return len(q.bodies)
}

func (q *fakeQueue) counts() queue.Counts {
	q.runMu.Lock()
	defer q.runMu.Unlock()
	return q.m.Counts()
}

// freeze makes batches wait; thaw lets them go.
func (q *fakeQueue) freeze() {
	q.mu.Lock()
	q.frozen = true
	q.mu.Unlock()
}

func (q *fakeQueue) thaw() {
	q.mu.Lock()
	q.frozen = false
	q.send()
	q.mu.Unlock()
}

func (q *fakeQueue) run() {
	for {
		q.mu.Lock()
		if len(q.mailbox) == 0 || q.gone || q.frozen {
			q.running = false
			q.mu.Unlock()
			return
		}
		b := q.mailbox[0]
		q.mailbox = q.mailbox[1:]
		q.mu.Unlock()
		q.apply(b)
	}
}

func (q *fakeQueue) apply(b *fakeBatch) {
	q.runMu.Lock()
	defer q.runMu.Unlock()
	q.k++
	batch := queue.Batch{
		Pipeline: queue.PipelineID{Node: queue.NodeID(fakeNode), Boot: queue.Boot{Counter: fakeBoot.Counter, Nonce: fakeBoot.Nonce}, Gen: 1},
		K:        q.k, NowMillis: time.Now().UnixMilli(), Count: b.count, Commands: b.buf,
	}
	var res queue.Result
	res, q.effects = q.m.ApplyBatch(machine.Stamp{Index: q.k, NowMillis: batch.NowMillis}, &batch, q.effects[:0])
	q.carryOut(b.buf)
	e := 0
	for i, w := range b.waiters {
		reply := queue.Reply{}
		if e < len(res.Exceptions) && int(res.Exceptions[e].Index) == i {
			reply = res.Exceptions[e].Reply
			e++
		}
		if res.Verdict != queue.VerdictApplied {
			reply.Code = queue.CodeUnavailable
		}
		if w.token != 0 {
			if n := len(q.done); n > 0 && b.waiters[i].s != q.doneFor(b, i) {
				q.complete(q.doneFor(b, i))
			}
			q.done = append(q.done, quorum.Completion{Token: w.token, Reply: reply})
		}
	}
	if len(q.done) > 0 {
		q.complete(q.lastWaiter(b))
	}
	q.tick()
}

// tick drives on what is due and comes back for what will be. Called with q.runMu held.
func (q *fakeQueue) tick() {
	for {
		due, ok := q.m.NextDeadline()
		now := time.Now().UnixMilli()
		if !ok {
			return
		}
		if due > now {
			q.tickAt(due, now)
			return
		}
		_, q.effects = q.m.Apply(machine.Stamp{NowMillis: now}, &queue.Command{Op: queue.OpTick}, q.effects[:0])
		q.carryOut(nil)
	}
}

func (q *fakeQueue) tickAt(due, now int64) {
	if q.ticksAt != 0 && q.ticksAt <= due {
		return
	}
	q.ticksAt = due
	time.AfterFunc(time.Duration(due-now)*time.Millisecond, func() {
		q.runMu.Lock()
		defer q.runMu.Unlock()
		if q.ticksAt == due {
			q.ticksAt = 0
		}
		q.tick()
	})
}

// configure changes the queue's configuration.
func (q *fakeQueue) configure(change func(*queue.Config)) {
	q.runMu.Lock()
	defer q.runMu.Unlock()
	cfg := q.m.Config()
	change(&cfg)
	cfg.Version++
	q.m.Apply(machine.Stamp{NowMillis: time.Now().UnixMilli()}, &queue.Command{Op: queue.OpConfigure, Config: cfg}, nil)
}

// sync tells a session what the queue has of it, as when a node attaches anew that has got its deliveries up to seen.
func (q *fakeQueue) sync(id queue.SessionID, seen uint64) {
	q.runMu.Lock()
	defer q.runMu.Unlock()
	pipeline := queue.PipelineID{Node: queue.NodeID(fakeNode), Boot: queue.Boot{Counter: fakeBoot.Counter, Nonce: fakeBoot.Nonce}, Gen: 1}
	st := q.m.Sync(pipeline, q.k, []queue.SessionMark{{Session: id, LastD: seen}})
	for i := range st.Sessions {
		if st.Sessions[i].Session == id {
			q.session(id).recv.Synced(q.id, &st.Sessions[i])
		}
	}
}

// doneFor returns the session of the last waiter before i that has a token.
func (q *fakeQueue) doneFor(b *fakeBatch, i int) *fakeSession {
	for i--; i >= 0; i-- {
		if b.waiters[i].token != 0 {
			return b.waiters[i].s
		}
	}
	return nil
}

func (q *fakeQueue) lastWaiter(b *fakeBatch) *fakeSession { return q.doneFor(b, len(b.waiters)) }

func (q *fakeQueue) complete(s *fakeSession) {
	s.recv.Completed(q.id, q.done)
	q.done = q.done[:0]
}

// carryOut keeps bodies and hands deliveries out.
func (q *fakeQueue) carryOut(commands []byte) {
	at := uint32(0)
	var to *fakeSession
	flush := func() {
		if len(q.deliveries) > 0 && to != nil {
			to.recv.Deliver(q.id, q.deliveries)
		}
		q.deliveries = q.deliveries[:0]
	}
	for i := range q.effects {
		e := &q.effects[i]
		switch e.Kind {
		case queue.KindStore:
			for ; at <= e.Index; at++ {
				commands, _ = queue.DecodeCommand(commands, &q.cmd)
			}
			q.bodies[e.Seq] = q.cmd.Envelope
		case queue.KindDeliver:
			s := q.session(e.Session)
			if s != to {
				flush()
				to = s
			}
			q.deliveries = append(q.deliveries, quorum.Delivery{
				Consumer: e.Consumer, Redelivered: e.Redelivered, DeliveryCount: e.DeliveryCount, AcquiredCount: e.AcquiredCount, D: e.D, Seq: e.Seq, Envelope: q.bodies[e.Seq],
			})
		case queue.KindCancel:
			flush()
			if s := q.session(e.Session); s != nil && !q.deaf {
				s.recv.Cancelled(q.id, e.Consumer)
			}
		case queue.KindTimedOut:
			flush()
			if s := q.session(e.Session); s != nil && !q.deaf {
				s.recv.TimedOut(q.id, []uint64{e.D})
			}
		case queue.KindReady:
			flush()
			if s := q.session(e.Session); s != nil {
				s.recv.Ready(q.id, uint64(e.Ready))
			}
		case queue.KindUnused:
			go func() { _, _ = q.host.DeleteQueue(context.Background(), q.id, queue.IfAutoDelete) }()
		}
	}
	flush()
	for i := range q.effects {
		if e := &q.effects[i]; e.Kind == queue.KindRelease {
			for seq := e.Seq; seq <= e.To; seq++ {
				delete(q.bodies, seq)
			}
		}
	}
}

func (q *fakeQueue) session(id queue.SessionID) *fakeSession {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sessions[id]
}

// end completes what waits with CodeGone.
func (q *fakeQueue) end() {
	q.mu.Lock()
	q.gone = true
	rest := q.mailbox
	if q.open != nil {
		rest = append(rest, q.open)
	}
	q.mailbox, q.open = nil, nil
	sessions := q.sessions
	q.mu.Unlock()
	for _, b := range rest {
		for _, w := range b.waiters {
			if w.token != 0 {
				w.s.recv.Completed(q.id, []quorum.Completion{{Token: w.token, Reply: queue.Reply{Code: queue.CodeGone}}})
			}
		}
	}
	for _, s := range sessions {
		s.recv.Gone(q.id)
	}
}

type fakeSession struct {
	host *fakeHost
	id   queue.SessionID
	recv quorum.Receiver

	mu     sync.Mutex
	closed bool
	dirty  []*fakeQueue
	served map[*fakeQueue]bool
	// last spares the host's lock.
	lastID meta.QueueID
	last   *fakeQueue
}

func (s *fakeSession) Submit(id meta.QueueID, cmd *queue.Command, token uint64) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return quorum.ErrClosed
	}
	q := s.last
	if q == nil || s.lastID != id {
		s.mu.Unlock()
		var err error
		if q, err = s.host.queue(id); err != nil {
			return err
		}
		s.mu.Lock()
		s.last, s.lastID = q, id
	}
	s.mu.Unlock()
	cmd.Session = s.id
	consumes := cmd.Op == queue.OpSubscribe || cmd.Op == queue.OpGet || cmd.Op == queue.OpTxEnqueue || cmd.Op == queue.OpTxSettle
	if err := q.submit(s, cmd, token); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		if consumes {
			return q.submit(s, &queue.Command{Op: queue.OpSessionClose, Session: s.id}, 0)
		}
		return nil
	}
	if consumes {
		s.served[q] = true
	}
	if n := len(s.dirty); n == 0 || s.dirty[n-1] != q {
		s.dirty = append(s.dirty, q)
	}
	return nil
}

func (s *fakeSession) Flush() {
	s.mu.Lock()
	dirty := s.dirty
	s.dirty = nil
	s.mu.Unlock()
	for _, q := range dirty {
		q.flush()
	}
}

func (s *fakeSession) ID() queue.SessionID { return s.id }

// AskTx asks a queue that was deleted: it is kept, as a draining one is.
func (s *fakeSession) AskTx(home meta.QueueID, n queue.TxNumber) (bool, error) {
	s.host.mu.Lock()
	q := s.host.ended[home]
	s.host.mu.Unlock()
	if q == nil {
		return false, nil
	}
	q.runMu.Lock()
	defer q.runMu.Unlock()
	boot := queue.Boot{Counter: fakeBoot.Counter, Nonce: fakeBoot.Nonce}
	reply, _ := q.m.Apply(machine.Stamp{NowMillis: time.Now().UnixMilli()}, &queue.Command{Op: queue.OpTxAsk, Node: queue.NodeID(fakeNode), Boot: boot, Session: s.id, Tx: n}, nil)
	return reply.A == queue.TxCommitted, nil
}

func (s *fakeSession) Close(lastWritten func(meta.QueueID) uint64, token uint64) []meta.QueueID {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	served := s.served
	s.mu.Unlock()
	var queues []meta.QueueID
	for q := range served {
		cmd := queue.Command{Op: queue.OpSessionClose, Session: s.id, To: lastWritten(q.id)}
		if q.submit(s, &cmd, token) == nil {
			q.flush()
			queues = append(queues, q.id)
		}
	}
	return queues
}

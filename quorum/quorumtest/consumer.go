package quorumtest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// ConsumerPlan is how a Consumer behaves.
type ConsumerPlan struct {
	// Prefetch and Window (messages) are what it subscribes with; 0 = no limit and 64.
	Prefetch, Window uint32
	// NoAck has it take messages without acknowledgement.
	NoAck bool
	// Hold is how many deliveries it keeps unsettled; it settles the oldest beyond them. Release ends that.
	Hold int
	// Return is the share of the deliveries that it gives back instead of acknowledging them; each message once by one consumer.
	Return float64
	// Seed decides which.
	Seed uint64
}

// windowDefault is the window of a plan without one.
const windowDefault = 64

// drainedIdleMillis is how long after the last delivery a consumer reports what it has.
const drainedIdleMillis = 20

// Consumer consumes one queue through one node's process. It ends with the process, or when the cluster declares that dead.
type Consumer struct {
	c       *Cluster
	plan    ConsumerPlan
	name    string
	queue   meta.QueueID
	node    *Node
	process *process
	session *quorum.Session
	rng     *rand.Rand

	mu         sync.Mutex
	lastD      uint64
	lastFresh  queue.Seq // of the last delivery without the flag
	inbox      []held    // delivered, not looked at
	kept       []held    // looked at, not settled
	drained    uint64
	unsettled  int // delivered, and no settle submitted
	got        int
	subscribed bool
	cancelled  bool
	over       bool // the process is gone: nothing counts any more
	cut        bool // the cluster declared the process dead
	closed     bool
	closing    bool // the SessionClose is not answered
	token      uint64
	settles    map[uint64][]held
	releasing  bool
	changed    chan struct{}
	done       chan struct{} // closed when the worker has ended
}

// held is one delivery that is not settled.
type held struct {
	d        uint64
	acquired uint32
	entry    *entry
}

// Tokens of a consumer's first and last command; the settles are between.
const (
	tokenSubscribe = 1
	tokenClose     = 2
	tokenSettle    = 16
)

// NewConsumer opens a consumer at a node that runs.
func (c *Cluster) NewConsumer(at *Node, q meta.QueueID, plan ConsumerPlan) *Consumer {
	c.T.Helper()
	k, ok := c.openConsumer(at, q, plan)
	if !ok {
		c.T.Fatalf("%s is down and takes no consumer", at.Name)
	}
	return k
}

// openConsumer is NewConsumer that says false if the node does not run.
func (c *Cluster) openConsumer(at *Node, q meta.QueueID, plan ConsumerPlan) (*Consumer, bool) {
	run := at.process()
	if run == nil || run.running() == nil {
		return nil, false
	}
	if plan.Window == 0 {
		plan.Window = windowDefault
	}
	k := &Consumer{c: c, plan: plan, queue: q, node: at, process: run, rng: rand.New(rand.NewPCG(plan.Seed, 4)),
		token: tokenSettle, settles: make(map[uint64][]held), changed: make(chan struct{}, 1), done: make(chan struct{})}
	k.session = run.host.OpenSession(k)
	k.name = fmt.Sprintf("session %d of %s, boot %d", k.session.ID(), at.Name, run.host.Boot().Counter)
	c.Books.own(run, k)
	c.add(k)
	cmd := queue.Command{Op: queue.OpSubscribe, Consumer: 1, Prefetch: plan.Prefetch, WindowBytes: 1 << 20, WindowCount: plan.Window}
	if plan.NoAck {
		cmd.Flags = queue.FlagNoAck
	}
	ok := k.session.Submit(q, &cmd, tokenSubscribe) == nil
	if ok {
		k.session.Flush()
	}
	go k.work()
	if !ok {
		k.stop()
	}
	return k, ok
}

// Completed implements quorum.Receiver.
func (k *Consumer) Completed(_ meta.QueueID, done []quorum.Completion) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return
	}
	for _, d := range done {
		switch {
		case d.Token == tokenSubscribe:
			k.subscribed = d.Reply.Code == queue.CodeOK
			if !k.subscribed && !k.cut && d.Reply.Code != queue.CodeUnavailable && d.Reply.Code != queue.CodeGone {
				k.c.Books.violate("%s cannot subscribe: code %d", k.name, d.Reply.Code)
			}
		case d.Token == tokenClose:
			k.closing = false
		default:
			k.settled(d)
		}
	}
	k.signal()
}

// settled takes the answer to a settle. Called with k.mu held.
func (k *Consumer) settled(d quorum.Completion) {
	list := k.settles[d.Token]
	delete(k.settles, d.Token)
	if d.Reply.Code != queue.CodeOK {
		return // the process is dead, or the queue: who knows
	}
	if int(d.Reply.A) != len(list) {
		k.c.Books.violate("%s settles %d deliveries, d %d to %d, but only %d were outstanding", k.name, len(list), list[0].d, list[len(list)-1].d, d.Reply.A)
		return
	}
	k.c.Books.settled(list)
}

// Deliver implements quorum.Receiver.
func (k *Consumer) Deliver(q meta.QueueID, deliveries []quorum.Delivery) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.cut || k.closed {
		return
	}
	for i := range deliveries {
		d := &deliveries[i]
		if d.D != k.lastD+1 {
			k.c.Books.violate("%s gets delivery %d (seq %d) after %d", k.name, d.D, d.Seq, k.lastD)
			continue
		}
		k.lastD = d.D
		k.got++
		e, ok := k.c.Books.delivered(q, d, k.name)
		if !ok {
			continue
		}
		if !d.Redelivered && e.tx == nil { // what is committed late has an early place
			if d.Seq <= k.lastFresh {
				k.c.Books.violate("%s gets seq %d for the first time after %d", k.name, d.Seq, k.lastFresh)
			}
			k.lastFresh = d.Seq
		}
		k.unsettled++
		if k.plan.Prefetch > 0 && k.unsettled > int(k.plan.Prefetch) {
			k.c.Books.violate("%s gets delivery %d beyond its prefetch of %d", k.name, d.D, k.plan.Prefetch)
		}
		h := held{d.D, d.AcquiredCount, e}
		if k.plan.NoAck {
			k.c.Books.settles([]held{h})
		}
		k.inbox = append(k.inbox, h)
	}
	k.signal()
}

// Cancelled implements quorum.Receiver.
func (k *Consumer) Cancelled(meta.QueueID, queue.ConsumerID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancelled = true
	k.signal()
}

// TimedOut implements quorum.Receiver. Its plans are done with messages long before.
func (*Consumer) TimedOut(meta.QueueID, []uint64) {}

// Synced implements quorum.Receiver.
func (*Consumer) Synced(meta.QueueID, *queue.SessionSync) {}

// Ready implements quorum.Receiver.
func (*Consumer) Ready(meta.QueueID, uint64) {}

// Gone implements quorum.Receiver.
func (k *Consumer) Gone(meta.QueueID) { k.fenced() }

func (k *Consumer) gone() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	k.signal()
}

func (k *Consumer) fenced() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = true
	k.signal()
}

func (k *Consumer) signal() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// Close ends the session in order: what it holds goes back to the queue.
func (k *Consumer) Close() {
	k.mu.Lock()
	if k.over || k.cut || k.closed {
		k.mu.Unlock()
		return
	}
	k.closed, k.closing = true, true
	last := k.lastD
	k.kept, k.inbox = nil, nil
	k.signal()
	k.mu.Unlock()
	if len(k.session.Close(func(meta.QueueID) uint64 { return last }, tokenClose)) == 0 {
		k.mu.Lock()
		k.closing = false
		k.mu.Unlock()
	}
}

// Closed tells that the end of the session was answered, or never will be.
func (k *Consumer) Closed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.over || k.cut || k.closed && !k.closing
}

// stop ends the worker without a word.
func (k *Consumer) stop() {
	k.gone()
	<-k.done
}

// Release has the consumer settle what it holds, and hold nothing any more.
func (k *Consumer) Release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.releasing = true
	k.signal()
}

// Got is how many deliveries came, Held how many of them are not settled, those whose settle is not answered included.
func (k *Consumer) Got() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.got
}

// Held is how many deliveries this consumer has that it did not settle, or whose settle was not answered; 0 when its session has ended.
func (k *Consumer) Held() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.cut || k.closed || k.plan.NoAck {
		return 0
	}
	n := len(k.inbox) + len(k.kept)
	for _, list := range k.settles {
		n += len(list)
	}
	return n
}

// Subscribed tells that the subscription was answered; Cancelled that the queue ended it.
func (k *Consumer) Subscribed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.subscribed
}

// WasCancelled tells that the queue ended the subscription by its own decision.
func (k *Consumer) WasCancelled() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cancelled
}

// ended tells that the session is over.
func (k *Consumer) ended() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.over || k.cut || k.closed
}

// describe tells how the consumer is, for failures; nothing when its session is over.
func (k *Consumer) describe() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || k.cut || k.closed && !k.closing {
		return ""
	}
	settling := 0
	for _, list := range k.settles {
		settling += len(list)
	}
	return fmt.Sprintf("%s at queue %d: %+v, subscribed %t, cancelled %t, closing %t, got %d, last d %d, drained %d, keeps %d, settles %d\n",
		k.name, k.queue, k.plan, k.subscribed, k.cancelled, k.closing, k.got, k.lastD, k.drained, len(k.inbox)+len(k.kept), settling)
}

// work settles and reports until the session ends.
func (k *Consumer) work() {
	defer close(k.done)
	idle := time.NewTimer(time.Hour)
	defer idle.Stop()
	for {
		isIdle := false
		select {
		case <-k.changed:
		case <-idle.C:
			isIdle = true
		}
		k.mu.Lock()
		if k.over || k.cut {
			k.mu.Unlock()
			return
		}
		if k.closed {
			k.mu.Unlock()
			continue
		}
		cmds := k.decide(isIdle)
		if k.drained < k.lastD {
			idle.Reset(drainedIdleMillis * time.Millisecond)
		}
		k.mu.Unlock()
		for i := range cmds {
			if k.session.Submit(k.queue, &cmds[i].cmd, cmds[i].token) != nil {
				break // it ended meanwhile
			}
		}
		k.session.Flush()
	}
}

type submission struct {
	cmd   queue.Command
	token uint64
}

// decide looks at what came. Called with k.mu held.
func (k *Consumer) decide(idle bool) []submission {
	var cmds []submission
	k.kept = append(k.kept, k.inbox...)
	k.inbox = k.inbox[:0]
	if k.lastD > k.drained && (idle || k.lastD-k.drained >= uint64(k.plan.Window+1)/2) {
		k.drained = k.lastD
		cmds = append(cmds, submission{cmd: queue.Command{Op: queue.OpDrained, To: k.lastD}})
	}
	if k.plan.NoAck {
		k.kept = k.kept[:0]
		return cmds
	}
	hold := k.plan.Hold
	if k.releasing {
		hold = 0
	}
	for len(k.kept) > hold {
		n := 1
		outcome := k.outcome(k.kept[0])
		for n < len(k.kept)-hold && n < settleMax && k.kept[n].d == k.kept[n-1].d+1 && outcome == queue.OutcomeAck && k.outcome(k.kept[n]) == outcome {
			n++
		}
		cmds = append(cmds, k.settle(k.kept[:n:n], outcome))
		k.kept = k.kept[n:]
	}
	return cmds
}

// settleMax is how many deliveries a consumer settles at once.
const settleMax = 256

// outcome decides about a delivery: the same each time it is asked.
func (k *Consumer) outcome(h held) queue.Outcome {
	if k.plan.Return > 0 && h.acquired == 0 {
		if rand.New(rand.NewPCG(k.plan.Seed, h.d)).Float64() < k.plan.Return {
			return queue.OutcomeReturn
		}
	}
	return queue.OutcomeAck
}

// settle makes the command for a run of deliveries. Called with k.mu held.
func (k *Consumer) settle(list []held, outcome queue.Outcome) submission {
	k.unsettled -= len(list)
	cmd := queue.Command{Op: queue.OpSettle, Outcome: outcome, From: list[0].d, To: list[len(list)-1].d}
	if outcome != queue.OutcomeAck {
		return submission{cmd: cmd}
	}
	list = append([]held(nil), list...)
	k.token++
	k.settles[k.token] = list
	k.c.Books.settles(list)
	return submission{cmd, k.token}
}

package quorumtest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// channel is a session whose commands a test submits one by one.
type channel struct {
	c       *Cluster
	at      *Node
	q       meta.QueueID
	session *quorum.Session

	mu      sync.Mutex
	token   uint64
	replies map[uint64]queue.Reply
	gets    map[uint64]bool // by token
	lastD   uint64
	got     []held
	readies int
	ended   int // how often the queue gave up on this node
}

func (c *Cluster) openChannel(at *Node, q meta.QueueID) *channel {
	ch := &channel{c: c, at: at, q: q, replies: make(map[uint64]queue.Reply), gets: make(map[uint64]bool)}
	ch.session = at.Host().OpenSession(ch)
	return ch
}

// Completed implements quorum.Receiver.
func (ch *channel) Completed(_ meta.QueueID, done []quorum.Completion) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for _, d := range done {
		if _, twice := ch.replies[d.Token]; twice {
			ch.c.Books.violate("%s answers command %d twice", ch.at.Name, d.Token)
		}
		if ch.gets[d.Token] && d.Reply.Code == queue.CodeOK && ch.lastD < d.Reply.A {
			ch.c.Books.violate("%s answers get %d before its message %d is there", ch.at.Name, d.Token, d.Reply.A)
		}
		ch.replies[d.Token] = d.Reply
	}
}

// Deliver implements quorum.Receiver.
func (ch *channel) Deliver(q meta.QueueID, deliveries []quorum.Delivery) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for i := range deliveries {
		d := &deliveries[i]
		if d.D != ch.lastD+1 {
			ch.c.Books.violate("a channel of %s gets delivery %d after %d", ch.at.Name, d.D, ch.lastD)
		}
		ch.lastD = d.D
		if e, ok := ch.c.Books.delivered(q, d, "a channel of "+ch.at.Name); ok {
			ch.got = append(ch.got, held{d.D, d.AcquiredCount, e})
		}
	}
}

// Cancelled implements quorum.Receiver.
func (ch *channel) Cancelled(meta.QueueID, queue.ConsumerID) {}

func (ch *channel) TimedOut(meta.QueueID, []uint64) {}

func (ch *channel) Synced(meta.QueueID, *queue.SessionSync) {}

// Ready implements quorum.Receiver.
func (ch *channel) Ready(meta.QueueID, uint64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.readies++
}

// told is how often the session was told that messages are ready beyond its limit.
func (ch *channel) told() int {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.readies
}

// Gone implements quorum.Receiver. Deliveries are numbered anew.
func (ch *channel) Gone(meta.QueueID) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.ended++
	ch.lastD, ch.got = 0, nil
}

// ends is how often Gone was said.
func (ch *channel) ends() int {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.ended
}

func (ch *channel) deliveries() []held {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return append([]held(nil), ch.got...)
}

// do submits a command and waits for its reply; meanwhile is called once it is on its way.
func (ch *channel) do(within time.Duration, cmd queue.Command, meanwhile func()) queue.Reply {
	ch.c.T.Helper()
	token := ch.submit(cmd)
	if meanwhile != nil {
		meanwhile()
	}
	return ch.await(within, token)
}

// submit sends a command and returns its token.
func (ch *channel) submit(cmd queue.Command) uint64 {
	ch.c.T.Helper()
	ch.mu.Lock()
	ch.token++
	token := ch.token
	ch.gets[token] = cmd.Op == queue.OpGet
	ch.mu.Unlock()
	if err := ch.session.Submit(ch.q, &cmd, token); err != nil {
		ch.c.T.Fatal(err)
	}
	ch.session.Flush()
	return token
}

// await waits for the reply to a command.
func (ch *channel) await(within time.Duration, token uint64) (reply queue.Reply) {
	ch.c.T.Helper()
	ch.c.Until(within, "a reply at "+ch.at.Name, func() (ok bool) {
		ch.mu.Lock()
		defer ch.mu.Unlock()
		reply, ok = ch.replies[token]
		return ok
	})
	return reply
}

// TestGetTakesTwoMessages: gets are answered once and bring one message each, whatever becomes of the replica that serves and of the leader.
func TestGetTakesTwoMessages(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		q, leader, far := c.threeOfFour()
		c.NewPublisher(far, q).Confirm(2*time.Second, 59)
		ch := c.openChannel(far, q)
		for i := range 60 {
			reply := ch.do(5*time.Second, queue.Command{Op: queue.OpGet}, func() {
				if i%10 == 5 {
					leader.Kill()
				}
			})
			if reply.Code != queue.CodeOK || reply.A != uint64(i+1) || reply.B != uint64(59-i) {
				c.T.Fatalf("get %d: %+v", i, reply)
			}
			got := ch.deliveries()
			if len(got) != i+1 {
				c.T.Fatalf("get %d: %d messages came", i, len(got))
			}
			if i%3 == 0 {
				c.Books.settles(got[i:])
				if r := ch.do(5*time.Second, queue.Command{Op: queue.OpSettle, Outcome: queue.OutcomeAck, From: reply.A, To: reply.A}, nil); r.A != 1 {
					c.T.Fatalf("ack of get %d: %+v", i, r)
				}
				c.Books.settled(got[i:])
			}
			if i%10 == 5 {
				leader.Start()
				leader = c.AwaitLeader(q)
			}
		}
		if r := ch.do(time.Second, queue.Command{Op: queue.OpGet}, nil); r.Code != queue.CodeEmpty {
			c.T.Errorf("a get of an empty queue: %+v", r)
		}
		ch.session.Close(func(meta.QueueID) uint64 { return 60 }, 0)
		c.drained(q, c.Node(1))
	})
}

// TestGetIsAnsweredBeforeItsMessage: the first thing that a node does with a queue elsewhere is a get, whose batch may be applied before the node is attached.
func TestGetIsAnsweredBeforeItsMessage(t *testing.T) {
	for latency := time.Millisecond; latency <= 16*time.Millisecond; latency *= 2 {
		Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
			home, far := c.Node(1), c.Node(2)
			for i := range 60 {
				q := c.declare(home, meta.Queue{VHost: "/", Name: fmt.Sprint("q", i), Home: home.ID, HomeBoot: home.Host().Boot()})
				c.NewPublisher(home, q).Confirm(time.Second, 1)
				c.Net.SetLatency(home.Name, far.Name, latency)
				ch := c.openChannel(far, q)
				if r := ch.do(2*time.Second, queue.Command{Op: queue.OpGet}, nil); r.Code != queue.CodeOK || len(ch.deliveries()) != 1 {
					c.T.Errorf("%+v, %d messages", r, len(ch.deliveries()))
				}
				got := ch.deliveries()
				c.Books.settles(got)
				ch.do(time.Second, queue.Command{Op: queue.OpSettle, Outcome: queue.OutcomeAck, From: 1, To: 1}, nil)
				c.Books.settled(got)
			}
		})
	}
}

// TestCancelOvertakesDeliveries: when a cancel is answered, every delivery of the consumer is there, and none comes later.
func TestCancelOvertakesDeliveries(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: 3 * time.Millisecond}, func(c *Cluster) {
		q, _, far := c.threeOfFour()
		for i, at := range []*Node{far, c.Node(1), c.Node(2), c.Node(3)} {
			ch := c.openChannel(at, q)
			ch.do(2*time.Second, queue.Command{Op: queue.OpSubscribe, Consumer: 1, WindowCount: 1000, WindowBytes: 1 << 20}, nil)
			p := c.NewPublisher(c.Nodes[i], q)
			for range 20 {
				p.Send(3, 20_000)
			}
			c.Pass(time.Duration(4+i) * time.Millisecond)
			reply := ch.do(2*time.Second, queue.Command{Op: queue.OpCancel, Consumer: 1}, nil)
			got := len(ch.deliveries())
			if uint64(got) != reply.A {
				c.T.Errorf("%s: cancel-ok says %d deliveries, %d came", at.Name, reply.A, got)
			}
			c.Until(2*time.Second, "every publish is answered", func() bool { return p.Open() == 0 })
			c.Pass(100 * time.Millisecond)
			if late := len(ch.deliveries()) - got; late != 0 {
				c.T.Errorf("%s: %d deliveries came after the cancel", at.Name, late)
			}
			ch.session.Close(func(meta.QueueID) uint64 { return reply.A }, 0)
		}
		c.drained(q, far)
	})
}

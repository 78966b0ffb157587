package quorumtest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/message"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// PROTOCOL 4. Each test is named after what goes wrong without the rule. At the end of each a message is in exactly one place, once.

// letterTTLMillis is the time to live of messages in the queues that they die in.
const letterTTLMillis = 300

// post is a client that publishes numbered messages and takes what comes.
type post struct {
	c       *Cluster
	session *quorum.Session
	// carriage is what its messages carry.
	carriage []byte
	mu       sync.Mutex
	okay     int
	got      []int
}

// Completed implements quorum.Receiver.
func (p *post) Completed(_ meta.QueueID, done []quorum.Completion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range done {
		if d.Reply.Code == queue.CodeOK || d.Reply.Code == queue.CodeGone { // what was for a queue that is gone is confirmed
			p.okay++
		}
	}
}

// Deliver implements quorum.Receiver.
func (p *post) Deliver(_ meta.QueueID, list []quorum.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range list {
		p.got = append(p.got, bodyOf(p.c, list[i].Envelope))
	}
}

// Cancelled, Ready and Gone implement quorum.Receiver.
func (*post) Cancelled(meta.QueueID, queue.ConsumerID) {}

func (*post) TimedOut(meta.QueueID, []uint64) {}

func (*post) Synced(meta.QueueID, *queue.SessionSync) {}
func (*post) Ready(meta.QueueID, uint64)              {}
func (*post) Gone(meta.QueueID)                       {}

func bodyOf(c *Cluster, envelope []byte) int {
	e, err := message.Parse(envelope)
	if err != nil {
		c.Books.violate("an envelope does not decode: %v", err)
	}
	n, err := strconv.Atoi(string(e.Body))
	if err != nil {
		c.Books.violate("a body is damaged: %v", err)
	}
	return n
}

func (c *Cluster) newPost(at *Node) *post {
	p := &post{c: c}
	p.session = at.Host().OpenSession(p)
	return p
}

// send publishes messages 0, 1, ... of some bytes and waits until all are confirmed.
func (p *post) send(q meta.QueueID, many int) {
	p.c.T.Helper()
	if taken := p.submit(q, many); taken < many {
		p.c.T.Fatalf("only %d were taken", taken)
	}
	p.c.Until(5*time.Second, "all is confirmed", func() bool { return p.count(&p.okay) == many })
}

// submit hands in messages, and tells how many are under way.
func (p *post) submit(q meta.QueueID, many int) (taken int) {
	for n := range many {
		env := message.Append(nil, &message.Envelope{RoutingKey: []byte("source"), Properties: []byte{0, 0}, Carriage: p.carriage, Body: strconv.AppendInt(nil, int64(n), 10)})
		switch err := p.session.Submit(q, &queue.Command{Op: queue.OpEnqueue, Flags: queue.FlagPersistent, BodyBytes: 8, Envelope: env}, uint64(n+1)); err {
		case nil:
			taken++
		case quorum.ErrNoQueue:
			p.mu.Lock()
			p.okay++ // as above
			p.mu.Unlock()
		}
	}
	p.session.Flush()
	return taken
}

func (p *post) count(n *int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *n
}

// received is what came so far.
func (p *post) received() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]int(nil), p.got...)
}

// declareWith declares a durable queue on the first three nodes.
func (c *Cluster) declareWith(name string, args amqp.Table) meta.QueueID {
	c.T.Helper()
	return c.declare(c.Live()[0], meta.Queue{VHost: "/", Name: name, Durable: true, Replicas: []meta.NodeID{1, 2, 3}, Arguments: meta.NewArguments(args)})
}

// letters are the arguments of a queue whose messages expire to an exchange and key.
func letters(exchange, key string) amqp.Table {
	return amqp.Table{
		{Key: "x-message-ttl", Value: amqp.Int32(letterTTLMillis)},
		{Key: "x-dead-letter-exchange", Value: amqp.Longstr(exchange)}, {Key: "x-dead-letter-routing-key", Value: amqp.Longstr(key)},
	}
}

// write changes the catalogue.
func (c *Cluster) write(cmds ...meta.Command) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	replies, err := c.Live()[0].Host().Do(ctx, cmds...)
	if err != nil {
		c.T.Fatal(err)
	}
	for _, r := range replies {
		if r.Reason != meta.ReasonOK {
			c.T.Fatalf("refused: %+v", r)
		}
	}
}

// drop deletes a queue.
func (c *Cluster) drop(q meta.QueueID) {
	c.write(meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: q}})
}

// fanout makes an exchange with some queues.
func (c *Cluster) fanout(name string, queues ...string) {
	cmds := []meta.Command{{Op: meta.OpDeclareExchange, Exchange: meta.Exchange{VHost: "/", Name: name, Type: "fanout", Durable: true}}}
	for _, q := range queues {
		cmds = append(cmds, meta.Command{Op: meta.OpBind, Binding: meta.Binding{VHost: "/", Source: name, Kind: meta.ToQueue, Destination: q}})
	}
	c.write(cmds...)
}

// blocked is a fault that keeps entries from the logs of queues.
func blocked(queues ...meta.QueueID) RaftFaults {
	return RaftFaults{Lose: func(_, _ meta.NodeID, m *pb.Message) bool {
		for _, q := range queues {
			if carriesEntries(m, uint64(q)) {
				return true
			}
		}
		return false
	}}
}

// dead waits until so many letters wait in a queue.
func (c *Cluster) dead(q meta.QueueID, want int) {
	c.T.Helper()
	c.Until(10*time.Second, fmt.Sprintf("%d letters wait", want), func() bool {
		n := c.Counts(q)
		return n.NextSeq > 1 && n.Dead == uint64(want) && n.Ready == 0
	})
}

// once waits until messages 0 to many-1 are in a queue, in any order, and no letter waits in its source, and holds the queue to having each exactly once.
func (c *Cluster) once(source, target meta.QueueID, many int) {
	c.T.Helper()
	within := 30 * time.Second
	c.Until(within, "every letter has left", func() bool { n := c.Counts(source); return n.NextSeq > 1 && n.Ready+n.Dead == 0 })
	c.Until(within, "every letter is there", func() bool { return c.Counts(target).Ready >= uint64(many) })
	c.Pass(2 * time.Second) // what is late comes twice
	times := make(map[int]int)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := c.AwaitLeader(target).Host().Peek(ctx, target, quorum.Look{Count: 2 * many}, c.counting(times))
	if err != nil {
		c.T.Fatal(err)
	}
	for n := range many {
		if times[n] != 1 {
			c.Books.violate("dead letter %d is there %d times", n, times[n])
		}
	}
	c.wake(target) // a replica that missed the beginning waits for somebody who wants it
	for _, q := range []meta.QueueID{source, target} {
		c.Until(within, "the replicas are equal", func() bool { return c.equalReplicas(q) })
	}
	c.sound()
}

// counting counts the messages of a look by their numbers.
func (c *Cluster) counting(times map[int]int) func(int, *queue.Peeked, []byte) bool {
	return func(_ int, _ *queue.Peeked, envelope []byte) bool {
		times[bodyOf(c, envelope)]++
		return true
	}
}

// wake starts the replicas of a queue.
func (c *Cluster) wake(q meta.QueueID) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, m := range c.Live()[0].Host().Catalogue().View.QueueByID(q).Members {
		h := c.Node(m.Node).Host()
		if h == nil {
			continue
		}
		if _, err := h.Peek(ctx, q, quorum.Look{Count: 1}, func(int, *queue.Peeked, []byte) bool { return false }); err != nil {
			c.T.Fatal(err)
		}
	}
	c.AwaitLeader(q)
}

// lead has a node lead a queue.
func (c *Cluster) lead(q meta.QueueID, n *Node) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.Host().MoveLeader(ctx, q, n.ID); err != nil {
		c.T.Fatal(err)
	}
	c.Until(5*time.Second, n.Name+" leads", func() bool { return c.Leader(q) == n })
}

// TestLettersComeTwiceOrNever: the leaders of the source and of the target die in turn while messages expire.
func TestLettersComeTwiceOrNever(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond, CheckpointLogBytes: 16 << 10}, func(c *Cluster) {
		const many, rounds = 300, 6
		source, target := c.declareWith("source", letters("", "target")), c.declareWith("target", nil)
		far := c.Node(4)
		for round := range rounds {
			c.newPost(far).send(source, many)
			c.Pass(time.Duration(letterTTLMillis-5+3*round) * time.Millisecond)
			victim := c.AwaitLeader([]meta.QueueID{source, target}[round%2])
			victim.Kill()
			c.Pass(time.Second)
			victim.Start()
			c.once(source, target, many)
			c.write(meta.Command{Op: meta.OpDeleteQueue, Queue: meta.Queue{ID: target}})
			target = c.declareWith("target", nil)
		}
	})
}

// lettersUnderWay has many messages die in a queue; their letters stand in the log of the target's leader, which leads the source, too, and nowhere else.
func (c *Cluster) lettersUnderWay(many int) (source, target meta.QueueID, leader *Node) {
	c.T.Helper()
	source, target = c.declareWith("source", letters("", "target")), c.declareWith("target", nil)
	c.wake(source)
	c.wake(target)
	leader = c.AwaitLeader(target)
	c.lead(source, leader)
	c.SetRaftFaults(blocked(target))
	c.newPost(c.Node(4)).send(source, many)
	c.dead(source, many)
	return source, target, leader
}

// TestLettersGoBeforeTheyArrived: letters have their targets, none has arrived, and the leader of their queue dies; then they have arrived, the queue has not heard of it, and its leader dies again.
func TestLettersGoBeforeTheyArrived(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		const many = 200 // one run
		source, target, leader := c.lettersUnderWay(many)
		c.Pass(time.Second)
		leader.Kill()           // with the run in its log and nowhere else
		c.Pass(5 * time.Second) // others lead
		second := c.AwaitLeader(source)
		leader.Start()
		c.SetRaftFaults(blocked(source))
		c.Until(10*time.Second, "some arrive", func() bool { return c.Counts(target).Ready > 0 })
		second.Kill()
		c.SetRaftFaults(RaftFaults{})
		c.Pass(time.Second)
		second.Start()
		c.once(source, target, many)
	})
}

// TestFormerLeaderWaitsForWhatWasOverwritten: a leader has proposed what the other members never got, which is overwritten under the next leader; the library says nothing of it for half a minute. When it leads again it goes on
// at once.
func TestFormerLeaderWaitsForWhatWasOverwritten(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond}, func(c *Cluster) {
		const many = 50
		source, target, leader := c.lettersUnderWay(many)
		c.SetRaftFaults(blocked(source))
		c.Until(10*time.Second, "all have arrived", func() bool { return c.Counts(target).Ready == many })
		c.Pass(100 * time.Millisecond) // the source is to note it
		c.Partition([]*Node{leader}, c.Others(leader))
		c.SetRaftFaults(RaftFaults{})
		c.Until(10*time.Second, "another one leads", func() bool { n := c.Leader(source); return n != nil && n != leader })
		c.Heal()
		c.Pass(time.Second)
		c.newPost(c.Node(4)).send(source, 1) // for the next leader, too
		c.lead(source, leader)
		c.newPost(c.Node(4)).send(source, many)
		c.Until(5*time.Second, "all that died has left", func() bool { n := c.Counts(source); return n.Ready+n.Dead == 0 && n.NextSeq > 2*many })
	})
}

// TestUnknownTargetCountsAsDeleted: the new leader of a queue has not heard of a target that its predecessor found.
func TestUnknownTargetCountsAsDeleted(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		const many = 50
		source := c.declareWith("source", letters("", "target"))
		p := c.newPost(c.Node(1))
		p.send(source, many)
		c.dead(source, many)
		leader, catalogue := c.AwaitLeader(source), c.catalogueLeader()
		late := c.Others(leader, catalogue)[0]
		var target meta.QueueID
		c.SetRaftFaults(RaftFaults{Lose: func(_, to meta.NodeID, m *pb.Message) bool {
			return to == late.ID && carriesEntries(m, catalogueShard) || m.Type == pb.Replicate && m.ShardID > uint64(source) && len(m.Entries) > 0
		}})
		target = c.declareWith("target", nil)
		c.Pass(2 * time.Second) // they get their target, and do not reach it
		if late.Host().Catalogue().View.QueueByID(target) != nil {
			c.T.Fatal("it has heard of the target")
		}
		c.lead(source, late)
		c.Pass(2 * time.Second)
		other := c.AwaitLeader(target)
		other.Kill() // with a run in its log and nowhere else
		c.SetRaftFaults(RaftFaults{})
		c.Until(10*time.Second, "the new leader hears of the target", func() bool { return late.Host().Catalogue().View.QueueByID(target) != nil })
		c.wake(target)
		other.Start()
		c.Until(5*time.Second, "it hears of the target", func() bool { return late.Host().Catalogue().View.QueueByID(target) != nil })
		c.once(source, target, many)
	})
}

// TestLettersOfDeletedTargetStay: one of two targets is deleted while letters wait for both.
func TestLettersOfDeletedTargetStay(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		const many = 300
		source, target, other := c.declareWith("source", letters("dead", "")), c.declareWith("target", nil), c.declareWith("other", nil)
		c.fanout("dead", "target", "other")
		c.SetRaftFaults(blocked(target, other))
		c.newPost(c.Node(1)).send(source, many)
		c.dead(source, many)
		c.Pass(time.Second)
		c.drop(other)
		c.SetRaftFaults(RaftFaults{})
		c.once(source, target, many)
	})
}

// TestLettersWithoutTargetAreLost: the dead-letter exchange is not there, then it has no queue, then it has one.
func TestLettersWithoutTargetAreLost(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		const many = 600 // more than are looked at at once
		source := c.declareWith("source", letters("dead", ""))
		c.newPost(c.Node(1)).send(source, many)
		c.dead(source, many)
		c.fanout("dead")
		leader := c.AwaitLeader(source)
		leader.Kill()
		c.Pass(3 * time.Second)
		leader.Start()
		c.dead(source, many)
		before, _ := c.AwaitLeader(source).Host().QueueStatus(source)
		c.Pass(time.Minute)
		if after, _ := c.AwaitLeader(source).Host().QueueStatus(source); after.Applied > before.Applied+5 {
			c.T.Errorf("the log grew by %d entries while nothing could be done", after.Applied-before.Applied)
		}
		target := c.declareWith("target", nil)
		c.fanout("dead", "target")
		c.once(source, target, many)
	})
}

// TestFullTargetIsTriedForEver: a full target takes what has room, and is asked for more seldom and with little; who makes room gets the rest, in order.
func TestFullTargetIsTriedForEver(t *testing.T) {
	Run(t, Options{Latency: time.Millisecond}, func(c *Cluster) {
		const many, room = 200, 10
		source := c.declareWith("source", letters("", "target"))
		target := c.declareWith("target", amqp.Table{{Key: "x-max-length", Value: amqp.Int32(room)}, {Key: "x-overflow", Value: amqp.Longstr("reject-publish")}})
		p := c.newPost(c.Node(1))
		p.send(source, many)
		c.dead(source, many-room)
		c.Pass(5 * time.Second)
		leader := c.AwaitLeader(target)
		before, _ := leader.Host().QueueStatus(target)
		c.Pass(time.Minute)
		after, _ := leader.Host().QueueStatus(target)
		if grown := after.Applied - before.Applied; grown > 70 || after.Counts.Ready != room {
			c.T.Errorf("a full target has %d messages, and its log grew by %d entries in a minute", after.Counts.Ready, grown)
		}
		if err := p.session.Submit(target, &queue.Command{Op: queue.OpSubscribe, Consumer: 1, Flags: queue.FlagNoAck, WindowBytes: 1 << 20, WindowCount: 10 * many}, many+1); err != nil {
			c.T.Fatal(err)
		}
		p.session.Flush()
		c.Until(10*time.Second, "all arrived", func() bool { return len(p.received()) >= many })
		c.Pass(5 * time.Second)
		for i, n := range p.received() {
			if i != n {
				c.T.Fatalf("message %d comes in place of %d", n, i)
			}
		}
		c.dead(source, 0)
	})
}

// TestTwoMoversAtOnce: a leader that is cut off from the other members, and has not noticed, goes on beside the next one.
func TestTwoMoversAtOnce(t *testing.T) {
	Run(t, Options{Nodes: 5, Latency: time.Millisecond}, func(c *Cluster) {
		const many = 300
		source := c.declareWith("source", letters("", "target"))
		target := c.declare(c.Node(5), meta.Queue{VHost: "/", Name: "target", Durable: true, Replicas: []meta.NodeID{4, 5, 3}})
		c.wake(target)
		for range 4 {
			c.newPost(c.Node(4)).send(source, many)
			leader := c.AwaitLeader(source)
			c.Pass((letterTTLMillis - 20) * time.Millisecond)
			for _, n := range c.Others(leader) {
				if n.ID <= 3 { // it reaches the target, and not the members of the source
					c.CutOneWay(n, leader)
				}
			}
			c.Until(10*time.Second, "another leads", func() bool {
				for _, n := range c.Others(leader) {
					if st, ok := n.Host().QueueStatus(source); ok && st.Leader == n.ID {
						return true
					}
				}
				return false
			})
			c.Pass(time.Second)
			c.Heal()
			c.once(source, target, many)
			c.drop(target)
			target = c.declare(c.Node(5), meta.Queue{VHost: "/", Name: "target", Durable: true, Replicas: []meta.NodeID{4, 5, 3}})
		}
	})
}

// TestRelaysLoseOrDoubleWhatPasses: messages pass the relay of an exchange while its leader and that of their target die in turn. What is mandatory and has nowhere to go is parked, all else is dropped
// and counted.
func TestRelaysLoseOrDoubleWhatPasses(t *testing.T) {
	Run(t, Options{Nodes: 4, Latency: time.Millisecond, CheckpointLogBytes: 16 << 10}, func(c *Cluster) {
		const many, rounds = 200, 4
		relay := c.delayedExchange("passed", "fanout", false)
		for round := range rounds {
			target := c.declareWith("target", nil)
			c.bindTo("passed", "target")
			p := c.newPost(c.Node(4))
			p.send(relay, many)
			victim := c.AwaitLeader([]meta.QueueID{relay, target}[round%2])
			victim.Kill()
			c.Pass(time.Second)
			victim.Start()
			c.once(relay, target, many)
			c.drop(target)
		}
		for _, n := range c.Nodes {
			if got := n.Host().Unrouted(); got != 0 {
				t.Errorf("%s has dropped %d that had a target", n.Name, got)
			}
		}
		p := c.newPost(c.Node(1))
		p.send(relay, 3)
		unrouted := func() (n uint64) {
			for _, x := range c.Nodes {
				n += x.Host().Unrouted()
			}
			return n
		}
		c.Until(5*time.Second, "they are dropped", func() bool { n := c.Counts(relay); return n.NextSeq > 1 && n.Dead == 0 && unrouted() == 3 })
		p.carriage = (&message.Carriage{Mandatory: true}).Append(nil)
		p.okay = 0
		p.send(relay, 3)
		var parked *meta.Queue
		c.Until(5*time.Second, "there is a place for them", func() bool {
			parked = c.Live()[0].Host().Catalogue().View.Queue("/", "amq.dead")
			return parked != nil
		})
		c.once(relay, parked.ID, 3)
	})
}

// delayedExchange makes an exchange of that type that routes as another type does, and returns its relay.
func (c *Cluster) delayedExchange(name, routes string, autoDelete bool) meta.QueueID {
	c.T.Helper()
	x := meta.Exchange{VHost: "/", Name: name, Type: meta.TypeDelayed, Durable: true, AutoDelete: autoDelete, Arguments: meta.NewArguments(amqp.Table{{Key: meta.ArgDelayedType, Value: amqp.Longstr(routes)}})}
	c.write(meta.Command{Op: meta.OpDeclareExchange, Exchange: x}, meta.RelayCommand(&x, []meta.NodeID{1, 2, 3}))
	return c.Live()[0].Host().Catalogue().View.Relay("/", name).ID
}

// bindTo binds a queue to an exchange.
func (c *Cluster) bindTo(exchange, queue string) {
	c.T.Helper()
	c.write(meta.Command{Op: meta.OpBind, Binding: meta.Binding{VHost: "/", Source: exchange, Kind: meta.ToQueue, Destination: queue}})
}

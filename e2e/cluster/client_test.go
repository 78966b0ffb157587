package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/totalqueue"
)

// client is what publishers and consumers have in common: a connection that is made anew when it ends.
type client struct {
	name    string
	home    *harness.Node
	traffic *traffic

	mu     sync.Mutex
	conn   *amqp.Connection
	node   *harness.Node // where conn leads
	marked time.Time
	served time.Time // first success after marked
	over   []ending
	move   chan struct{} // closed to have the client go home
	began  []string      // what to tell of the begin of each connection
}

// ending is one end of a connection that the client did not want.
type ending struct {
	at   time.Time
	node string
	why  error
}

// redialPause is how long a client waits before it connects again.
const redialPause = 20 * time.Millisecond

// errStopped is the end that the test wanted, errMoved that of a client that goes home.
var (
	errStopped = errors.New("stopped")
	errMoved   = errors.New("goes home")
)

// repeat runs sessions until the context ends.
func (cl *client) repeat(ctx context.Context, session func(context.Context, *amqp.Connection) error) {
	for ctx.Err() == nil {
		conn, node := cl.dial()
		if conn != nil {
			closed := conn.NotifyClose(make(chan *amqp.Error, 1))
			cl.enter(conn, node)
			err := session(ctx, conn)
			if !errors.Is(err, errStopped) && !errors.Is(err, errMoved) {
				select {
				case e, ok := <-closed:
					if ok && e != nil {
						err = e
					}
				default:
				}
				cl.note(node, err)
			}
			cl.enter(nil, nil)
			_ = conn.CloseDeadline(time.Now().Add(5 * time.Second))
		}
		select {
		case <-ctx.Done():
		case <-time.After(redialPause):
		}
	}
}

// dial connects to the client's own node, or else to the first that answers.
func (cl *client) dial() (*amqp.Connection, *harness.Node) {
	nodes := cl.traffic.cluster.Nodes
	first := 0
	for i, n := range nodes {
		if n == cl.home {
			first = i
		}
	}
	for i := range nodes {
		n := nodes[(first+i)%len(nodes)]
		if p := n.Process(); p == nil || !p.Running() {
			continue
		}
		if conn, err := harness.Dial(n.AMQPURL()); err == nil {
			return conn, n
		}
	}
	return nil, nil
}

func (cl *client) enter(conn *amqp.Connection, node *harness.Node) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.conn, cl.node, cl.move = conn, node, make(chan struct{})
}

// moves is closed when the client is to go home.
func (cl *client) moves() <-chan struct{} {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.move
}

func (cl *client) note(node *harness.Node, err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.over = append(cl.over, ending{time.Now(), node.Name, err})
}

// at is the node that the client is connected to, nil for none.
func (cl *client) at() *harness.Node {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.node
}

func (cl *client) endCount() int {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return len(cl.over)
}

// endings are those since a moment.
func (cl *client) endings(since time.Time) []ending {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	var list []ending
	for _, e := range cl.over {
		if !e.at.Before(since) {
			list = append(list, e)
		}
	}
	return list
}

// comeHome has a client that is connected to another node end that connection, once everything is answered there: what is not, may come after what is published elsewhere.
func (cl *client) comeHome() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.node == nil || cl.node == cl.home {
		return
	}
	select {
	case <-cl.move:
	default:
		close(cl.move)
	}
}

func (cl *client) mark(now time.Time) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.marked, cl.served = now, time.Time{}
}

// success notes that something that was begun at a moment succeeded.
func (cl *client) success(begun time.Time) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.served.IsZero() && !begun.Before(cl.marked) {
		cl.served = time.Now()
	}
}

// since is the moment of the first success after the mark, zero for none.
func (cl *client) since() time.Time {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.served
}

// history tells the ends of the client's connections, for the log of a failed test.
func (cl *client) history() string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	var b strings.Builder
	where := "nowhere"
	if cl.node != nil {
		where = cl.node.Name
	}
	fmt.Fprintf(&b, "%s, connected to %s, marked %s, served %s", cl.name, where, clock(cl.marked), clock(cl.served))
	for _, e := range cl.over {
		fmt.Fprintf(&b, "; %s %s: %v", clock(e.at), e.node, e.why)
	}
	if len(cl.began) > 0 {
		fmt.Fprintf(&b, "; %s", strings.Join(cl.began, ", "))
	}
	return b.String()
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format("15:04:05.000")
}

// publisher sends messages to one queue at a steady pace and keeps account of the answers.
type publisher struct {
	client
	queue      string
	account    *totalqueue.Publisher
	unanswered int // at the end
}

// sent is what a channel's publisher remembers of its messages; index tag-1.
type sent struct {
	mu   sync.Mutex
	list []sentMessage
}

type sentMessage struct {
	seq uint64
	at  time.Time
}

func (s *sent) add(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, sentMessage{seq, time.Now()})
}

func (s *sent) get(tag uint64) sentMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tag == 0 || tag > uint64(len(s.list)) {
		return sentMessage{}
	}
	return s.list[tag-1]
}

// session publishes on one connection until it ends.
func (p *publisher) session(ctx context.Context, conn *amqp.Connection) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	var list sent
	slots := make(chan struct{}, window)
	answers := ch.NotifyPublish(make(chan amqp.Confirmation, window))
	over := make(chan struct{})
	go func() {
		defer close(over)
		for a := range answers {
			m := list.get(a.DeliveryTag)
			id := totalqueue.ID{Publisher: p.account.Name(), Seq: m.seq}
			p.traffic.trail.add(p.queue, id, "answered, ack=%t", a.Ack)
			if a.Ack {
				p.account.Confirmed(m.seq)
				p.success(m.at)
			} else {
				p.account.Nacked(m.seq)
			}
			<-slots
		}
	}()
	first := true
	pace := time.NewTicker(time.Second / time.Duration(p.traffic.rate))
	defer pace.Stop()
	for {
		select {
		case <-over:
			return errors.New("the channel ended")
		case <-ctx.Done():
			p.unanswered = p.awaitAnswers(slots, over)
			return errStopped
		case <-p.moves():
			p.awaitAnswers(slots, over)
			return errMoved
		case <-pace.C:
		}
		select {
		case <-over:
			return errors.New("the channel ended")
		case <-ctx.Done():
			continue
		case <-p.moves():
			continue
		case slots <- struct{}{}:
		}
		id, body := p.account.Next(bodyBytes)
		list.add(id.Seq)
		p.traffic.trail.add(p.queue, id, "published on %s", p.at().Name)
		if first {
			p.mu.Lock()
			p.began = append(p.began, fmt.Sprintf("from message %d on %s at %s", id.Seq, p.node.Name, clock(time.Now())))
			p.mu.Unlock()
			first = false
		}
		msg := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id.String(), Body: body}
		if err := ch.PublishWithContext(context.Background(), "", p.queue, false, false, msg); err != nil {
			return err
		}
	}
}

// awaitAnswers waits until everything is answered or the connection ends, and returns how much is missing when that takes too long.
func (p *publisher) awaitAnswers(slots chan struct{}, over <-chan struct{}) int {
	late := time.After(answerTimeout)
	for len(slots) > 0 {
		select {
		case <-over:
			return 0
		case <-late:
			return len(slots)
		case <-time.After(time.Millisecond):
		}
	}
	return 0
}

// consumer takes messages of one queue and acknowledges all but the last few.
type consumer struct {
	client
	queue string
	held  int
}

func (k *consumer) heldCount() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held
}

func (k *consumer) setHeld(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = n
}

// session consumes on one connection until it ends.
func (k *consumer) session(ctx context.Context, conn *amqp.Connection) error {
	defer k.setHeld(0)
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(k.queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	trail, node := &k.traffic.trail, k.at().Name
	account := k.traffic.ledger.Consumer(k.queue)
	defer account.Close()
	type open struct {
		tag uint64
		id  totalqueue.ID
	}
	var list []open
	for {
		select {
		case <-ctx.Done():
			return errStopped
		case <-k.moves():
			return errMoved
		case d, ok := <-deliveries:
			if !ok {
				return errors.New("the consumer ended")
			}
			id, known := account.Deliver(totalqueue.Delivery{Body: d.Body, MessageID: d.MessageId, Redelivered: d.Redelivered})
			if !known {
				continue
			}
			trail.add(k.queue, id, "delivered by %s to %s, redelivered=%t", node, k.name, d.Redelivered)
			k.success(time.Now())
			if list = append(list, open{d.DeliveryTag, id}); len(list) > hold {
				if err := ch.Ack(list[0].tag, false); err != nil {
					return err
				}
				account.Acked(list[0].id)
				trail.add(k.queue, list[0].id, "acknowledged")
				list = list[1:]
			}
			k.setHeld(len(list))
		}
	}
}

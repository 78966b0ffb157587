package cluster

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

const (
	// shortPause is less, longPause more than the silence after which a node is declared dead.
	shortPause = time.Second
	longPause  = 8 * time.Second
	// connectionForced is the code with which a node that was declared dead closes its clients.
	connectionForced = 320
	// wakeTimeout is how long a node may take from its wake-up or the end of a partition until its clients are served again.
	wakeTimeout = 15 * time.Second
)

// TestPausedNodes stops the process of a node for a while, as a virtual machine that is moved.
func TestPausedNodes(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, 3, harness.ClusterOptions{Patience: pick(4*time.Minute, 15*time.Minute)})
	declare(t, c.Nodes[0])
	tr := newTraffic(t, c, classicQueue, quorumQueue)
	tr.awaitAll(t, serveTimeout)
	for range pick(1, 3) {
		for _, pause := range []time.Duration{shortPause, longPause} {
			for _, leads := range []bool{true, false} {
				node := tr.choose(t, leads)
				name := fmt.Sprintf("%s, which leads: %t, for %v", node.Name, leads, pause)
				if !t.Run(name, func(t *testing.T) { pauseNode(t, tr, node, pause) }) {
					return
				}
			}
		}
	}
	tr.finish(t)
}

// choose returns the node that leads the first queue, or one that leads neither that queue nor, if possible, another one.
func (tr *traffic) choose(t *testing.T, leads bool) *harness.Node {
	t.Helper()
	leader := tr.cluster.Leader(t, tr.queues[0])
	if leads {
		return leader
	}
	rest := others(tr.cluster.Nodes, leader)
	second := tr.cluster.Leader(t, tr.queues[len(tr.queues)-1])
	if rest[0] == second {
		return rest[1]
	}
	return rest[0]
}

func signal(t *testing.T, n *harness.Node, s syscall.Signal) {
	t.Helper()
	if err := n.Process().Signal(s); err != nil {
		t.Fatal(err)
	}
}

func pauseNode(t *testing.T, tr *traffic, node *harness.Node, pause time.Duration) {
	publishers, consumers := tr.on(others(tr.cluster.Nodes, node)...)
	itsPublishers, itsConsumers := tr.on(node)
	before, itsBefore := ends(publishers, consumers), ends(itsPublishers, itsConsumers)
	began := tr.mark()
	signal(t, node, syscall.SIGSTOP)
	t.Cleanup(func() { _ = node.Process().Signal(syscall.SIGCONT) })
	took, err := awaitPublishers(began, serveTimeout, publishers)
	if err != nil {
		t.Fatal(err)
	}
	if took > confirmMax {
		t.Errorf("a client of another node waited %v for a confirm, want at most %v", round(took), confirmMax)
	}
	time.Sleep(time.Until(began.Add(pause)))
	signal(t, node, syscall.SIGCONT)
	woken := tr.mark()
	back := tr.awaitBack(t, woken, itsPublishers, itsConsumers, pause >= longPause)
	t.Logf("confirms on the others after %v, on the node that woke up after %v", round(took), round(back))
	if n := ends(publishers, consumers) - before; n > 0 {
		t.Errorf("%d connections or consumers on the other nodes ended", n)
	}
	if n := ends(itsPublishers, itsConsumers) - itsBefore; n > 0 && pause < longPause {
		t.Errorf("%d connections or consumers on the node that was stopped shortly ended", n)
	}
	tr.comeHome(t)
}

// awaitBack waits until the clients of a node that was away are served. If it was declared dead each of them must have been told so.
func (tr *traffic) awaitBack(t *testing.T, since time.Time, publishers []*publisher, consumers []*consumer, dead bool) time.Duration {
	t.Helper()
	if dead {
		harness.Eventually(t, wakeTimeout, func() error {
			for _, p := range publishers {
				if err := toldOfDeath(&p.client, since); err != nil {
					return err
				}
			}
			for _, k := range consumers {
				if err := toldOfDeath(&k.client, since); err != nil {
					return err
				}
			}
			return nil
		})
	}
	took, err := awaitPublishers(since, wakeTimeout, publishers)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := awaitConsumers(since, wakeTimeout, consumers); err != nil {
		t.Fatal(err)
	}
	if dead {
		onlyOnce(t, since, publishers, consumers)
	}
	return took
}

// onlyOnce wants clients that were told of the node's death to have been served by it without a further error since.
func onlyOnce(t *testing.T, since time.Time, publishers []*publisher, consumers []*consumer) {
	t.Helper()
	var list []*client
	for _, p := range publishers {
		list = append(list, &p.client)
	}
	for _, k := range consumers {
		list = append(list, &k.client)
	}
	for _, cl := range list {
		if e := cl.endings(since); len(e) > 1 {
			t.Errorf("%s came back %v after it was closed and was refused: %v", cl.name, e[1].at.Sub(e[0].at).Round(time.Millisecond), e[1].why)
		}
	}
}

// toldOfDeath wants the client's connection to have ended with 320.
func toldOfDeath(cl *client, since time.Time) error {
	list := cl.endings(since)
	if len(list) == 0 {
		return fmt.Errorf("%s was not closed by the node that was declared dead", cl.name)
	}
	var e *amqp.Error
	if !errors.As(list[0].why, &e) || e.Code != connectionForced {
		return fmt.Errorf("%s was closed with %v, want code %d", cl.name, list[0].why, connectionForced)
	}
	return nil
}

// TestPausedAgain stops a node for long and soon after its return for less than what makes a node count as dead: that time it is not declared dead.
func TestPausedAgain(t *testing.T) {
	t.Parallel()
	const again = 2 * time.Second
	c := harness.StartCluster(t, 3, harness.ClusterOptions{})
	declare(t, c.Nodes[0])
	tr := newTraffic(t, c, classicQueue, quorumQueue)
	tr.awaitAll(t, serveTimeout)
	node := tr.choose(t, false)
	for i := range pick(1, 5) {
		pauseNode(t, tr, node, longPause)
		publishers, consumers := tr.on(node)
		before := ends(publishers, consumers)
		began := tr.mark()
		signal(t, node, syscall.SIGSTOP)
		time.Sleep(again)
		signal(t, node, syscall.SIGCONT)
		if _, err := awaitPublishers(began, wakeTimeout, publishers); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // a close would come now
		if n := ends(publishers, consumers) - before; n > 0 {
			t.Fatalf("round %d: %d connections or consumers ended though the node was away for %v only", i+1, n, again)
		}
		tr.comeHome(t)
	}
	tr.finish(t)
}

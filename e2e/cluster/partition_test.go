package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
)

const (
	// shortCut is less, longCut more than the silence after which a node is declared dead, and than the time after which a publish is nacked.
	shortCut = 2 * time.Second
	longCut  = 13 * time.Second
	// refuseMax is how long a minority may take to say no, with a little for the clocks of the test.
	refuseMax = 10*time.Second + 500*time.Millisecond
)

// startProxied starts three nodes with proxies between them, the queues and the load.
func startProxied(t *testing.T) *traffic {
	t.Helper()
	c := harness.StartCluster(t, 3, harness.ClusterOptions{Proxied: true, Patience: pick(4*time.Minute, 15*time.Minute)})
	declare(t, c.Nodes[0])
	tr := newTraffic(t, c, classicQueue, quorumQueue)
	tr.awaitAll(t, serveTimeout)
	return tr
}

// TestPartition cuts one node off. The others go on; it says no in time, and serves again when the network heals.
func TestPartition(t *testing.T) {
	t.Parallel()
	tr := startProxied(t)
	for range pick(1, 3) {
		for _, cut := range []time.Duration{shortCut, longCut} {
			for _, leads := range pick([]bool{true}, []bool{true, false}) {
				node := tr.choose(t, leads)
				name := fmt.Sprintf("%s, which leads: %t, for %v", node.Name, leads, cut)
				if !t.Run(name, func(t *testing.T) { partition(t, tr, node, cut) }) {
					return
				}
			}
		}
	}
	tr.finish(t)
}

// partition cuts node off for a while.
func partition(t *testing.T, tr *traffic, node *harness.Node, cut time.Duration) {
	rest := others(tr.cluster.Nodes, node)
	publishers, consumers := tr.on(rest...)
	itsPublishers, itsConsumers := tr.on(node)
	before, itsBefore := ends(publishers, consumers), ends(itsPublishers, itsConsumers)
	minority := newProbe(t, node)
	began := tr.mark()
	tr.cluster.Net.Partition([]*harness.Node{node}, rest)
	t.Cleanup(tr.cluster.Net.Heal)
	if cut > shortCut {
		minority.wantNo(t, tr.queues[0])
	}
	took, err := awaitPublishers(began, serveTimeout, publishers)
	if err != nil {
		t.Fatal(err)
	}
	if took > confirmMax {
		t.Errorf("a client of the majority waited %v for a confirm, want at most %v", round(took), confirmMax)
	}
	time.Sleep(time.Until(began.Add(cut)))
	healed := tr.mark()
	tr.cluster.Net.Heal()
	back := tr.awaitBack(t, healed, itsPublishers, itsConsumers, cut > shortCut)
	t.Logf("confirms in the majority after %v, on the node that was cut off %v after the end", round(took), round(back))
	if n := ends(publishers, consumers) - before; n > 0 {
		t.Errorf("%d connections or consumers in the majority ended", n)
	}
	if n := ends(itsPublishers, itsConsumers) - itsBefore; n > 0 && cut == shortCut {
		t.Errorf("%d connections or consumers on the node that was cut off shortly ended", n)
	}
	tr.comeHome(t)
}

// probe asks a node what it cannot do alone.
type probe struct {
	publish, declare *amqp.Channel
	name             string
}

// newProbe connects while the node can still let it.
func newProbe(t *testing.T, n *harness.Node) *probe {
	t.Helper()
	conn := n.Connect(t)
	p := &probe{publish: harness.Channel(t, conn), declare: harness.Channel(t, conn), name: fmt.Sprintf("probe-%d", time.Now().UnixNano())}
	if err := p.publish.Confirm(false); err != nil {
		t.Fatal(err)
	}
	if _, err := p.publish.QueueDeclare(p.name, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := harness.TryPublishConfirmed(p.publish, "", p.name, []byte("before")); err != nil {
		t.Fatal(err)
	}
	return p
}

// wantNo wants a nack for a publish and an error for a declare, both in time.
func (p *probe) wantNo(t *testing.T, queue string) {
	t.Helper()
	began := time.Now()
	declared := make(chan error, 1)
	go func() {
		_, err := p.declare.QueueDeclare(p.name+"-other", true, false, false, false, nil)
		declared <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	confirm, err := p.publish.PublishWithDeferredConfirmWithContext(ctx, "", p.name, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("cut off")})
	if err != nil {
		t.Fatalf("publish to the minority: %v", err)
	}
	ok, err := confirm.WaitContext(ctx)
	nacked := time.Since(began)
	if err != nil || ok || nacked > refuseMax {
		t.Errorf("a publish to the minority: confirmed=%t, %v, after %v; want a nack within %v", ok, err, round(nacked), refuseMax)
	}
	select {
	case err = <-declared:
	case <-ctx.Done():
		t.Fatalf("a declare on the minority has no answer after %v", round(time.Since(began)))
	}
	refused := time.Since(began)
	var e *amqp.Error
	if !errors.As(err, &e) || refused > refuseMax {
		t.Errorf("a declare on the minority: %v, after %v; want an error within %v", err, round(refused), refuseMax)
	}
	t.Logf("the minority nacked after %v and refused a declare after %v: %v", round(nacked), round(refused), err)
}

// TestOneWay stalls one direction between the leader and a follower. Everybody else goes on, and all is well when it heals.
func TestOneWay(t *testing.T) {
	t.Parallel()
	tr := startProxied(t)
	for _, outward := range []bool{true, false} {
		// The follower leads none of the queues: who cannot hear a queue's leader is not served.
		leader, follower := tr.choose(t, true), tr.choose(t, false)
		from, to := leader, follower
		if !outward {
			from, to = follower, leader
		}
		t.Run(fmt.Sprintf("leader hears follower: %t", outward), func(t *testing.T) {
			publishers, _ := tr.on(others(tr.cluster.Nodes, follower)...)
			began := tr.mark()
			tr.cluster.Net.Stall(from, to)
			t.Cleanup(tr.cluster.Net.Heal)
			took, err := awaitPublishers(began, serveTimeout, publishers)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(began.Add(longPause)))
			healed := tr.mark()
			tr.cluster.Net.Heal()
			back, err := awaitPublishers(healed, wakeTimeout, tr.publishers)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("confirms for those that the follower does not serve after %v, for all %v after the end", round(took), round(back))
			tr.comeHome(t)
		})
	}
	tr.finish(t)
}

// TestResets resets every connection between the nodes, again and again.
func TestResets(t *testing.T) {
	tr := startProxied(t)
	nodes := tr.cluster.Nodes
	publishers, consumers := tr.on(nodes...)
	before := ends(publishers, consumers)
	for i := range pick(6, 60) {
		tr.cluster.Net.Cut(nodes[i%3], nodes[(i+1)%3])
		time.Sleep(time.Duration(50+i%3*100) * time.Millisecond)
		tr.cluster.Net.Heal()
		tr.awaitAll(t, serveTimeout)
	}
	if n := ends(publishers, consumers) - before; n > 0 {
		t.Errorf("%d connections or consumers ended", n)
	}
	tr.finish(t)
}

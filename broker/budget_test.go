package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
)

// TestConnectionsShareThePublishBudget: many connections that publish to a queue that does not answer are held back together, one that has nothing on its way is let through, and all go on.
func TestConnectionsShareThePublishBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget, size, clients, each = 1 << 20, 20 << 10, 20, 20
		b := startBroker(t, func(o *Options) { o.PublishBytesMax, o.PublishTimeout = budget, time.Hour })
		first := b.open()
		first.declare("q")
		first.declare("other")
		b.queueNamed("q").freeze()
		done := make(chan struct{}, clients)
		for range clients {
			r := b.open()
			r.confirm()
			go func() {
				for range each {
					r.write(message(1, "", "q", make([]byte, size)))
				}
				done <- struct{}{}
			}()
		}
		synctest.Wait()
		// Beside the budget each connection may have its last message, and one more its first.
		if used := b.publishes.used.Load(); used < budget || used > budget+(clients+1)*(size+100) {
			t.Errorf("%d bytes are on their way, the budget is %d", used, budget)
		}
		first.confirm()
		first.write(message(1, "", "other", make([]byte, size)))
		first.expect("basic.ack delivery-tag=1")
		b.queueNamed("q").thaw()
		for range clients {
			<-done
		}
		synctest.Wait()
		if n := b.queueNamed("q").counts().Ready; n != clients*each {
			t.Errorf("%d messages came, want %d", n, clients*each)
		}
		if used := b.publishes.used.Load(); used != 0 {
			t.Errorf("%d bytes stay counted", used)
		}
	})
}

// TestLongBodiesWaitForMemory: a long body is not taken while there is no memory for all of it; when it is, it ends, and what is given up is given back.
func TestLongBodiesWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		b := startBroker(t, func(o *Options) { o.PublishBytesMax = size })
		one, two := b.open(), b.open()
		one.declare("q")
		begin := func(r *rawClient) {
			r.send(1, &amqp.BasicPublish{RoutingKey: "q"})
			r.write(amqp.AppendHeaderFrame(nil, 1, amqp.ClassBasic, size, []byte{0, 0}))
		}
		body := func(r *rawClient) { r.write(amqp.AppendBodyFrames(nil, 1, make([]byte, size), limits.FrameBytesMax)) }
		begin(one)
		synctest.Wait()
		begin(two)
		sent := make(chan struct{})
		go func() {
			body(two)
			close(sent)
		}()
		synctest.Wait()
		select {
		case <-sent:
			t.Error("a body was read that there is no memory for")
		default:
		}
		body(one)
		one.sync(1)
		<-sent
		two.sync(1)
		synctest.Wait() // until the queue has both
		if n := b.queueNamed("q").counts().Ready; n != 2 {
			t.Errorf("%d messages came, want 2", n)
		}
		begin(one)
		_ = one.nc.Close()
		time.Sleep(2 * lingerMax)
		if used := b.publishes.used.Load(); used != 0 {
			t.Errorf("%d bytes stay counted", used)
		}
	})
}

// TestBodyBeyondTheBudgetWaitsForItself: a body that is longer than the whole budget goes on to all its queues when it has come: nobody else will make room for it.
func TestBodyBeyondTheBudgetWaitsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t, func(o *Options) { o.PublishBytesMax = 1 << 20 })
		r := b.open()
		r.declare("q")
		r.declare("other")
		for _, q := range []string{"q", "other"} {
			r.call(1, &amqp.QueueBind{Queue: q, Exchange: "amq.fanout"}, "queue.bind-ok")
		}
		r.confirm()
		go r.write(message(1, "amq.fanout", "", make([]byte, 5<<20)))
		r.expect("basic.ack delivery-tag=1")
		synctest.Wait()
		if used := b.publishes.used.Load(); used != 0 {
			t.Errorf("%d bytes stay counted", used)
		}
	})
}

// TestUnfinishedBodyIsGivenUp: who holds memory for a body that does not come loses it when others want it, not before.
func TestUnfinishedBodyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		b := startBroker(t, func(o *Options) { o.PublishBytesMax, o.Heartbeat = size, -1 })
		one, two := b.open(), b.open()
		two.declare("q")
		one.send(1, &amqp.BasicPublish{RoutingKey: "q"})
		one.write(amqp.AppendHeaderFrame(nil, 1, amqp.ClassBasic, size, []byte{0, 0}))
		time.Sleep(2 * limits.FrameStallMillis * time.Millisecond)
		if n := len(b.connections()); n != 2 {
			t.Fatalf("%d connections, though nobody waits", n)
		}
		two.confirm()
		two.write(message(1, "", "q", make([]byte, size)))
		two.expect("basic.ack delivery-tag=1")
		if n := b.queueNamed("q").counts().Ready; n != 1 {
			t.Errorf("%d messages came, want 1", n)
		}
		synctest.Wait() // who is cut leaves by itself
		if n := len(b.connections()); n != 1 {
			t.Errorf("%d connections are left, want 1", n)
		}
	})
}

// TestConsumersShareTheWindowBudget: however many connections consume, their windows together stay near the node's budget.
func TestConsumersShareTheWindowBudget(t *testing.T) {
	const budget, clients = 4 << 20, 50
	b := startBroker(t, func(o *Options) { o.WindowBytesMax = budget })
	r := b.open()
	r.declare("q")
	sum := int64(0)
	for i := range clients {
		r := b.open()
		r.consume("q", fmt.Sprint(i), true)
	}
	for _, c := range b.connections() {
		sum += limits.ConnectionWindowBytes - c.windowLeft.Load()
	}
	if sum < budget/2 || sum > budget+clients*windowBytesMin {
		t.Errorf("%d consumers may have %d bytes, the budget is %d", clients, sum, budget)
	}
	if left := b.windowLeft.Load(); left != budget-sum {
		t.Errorf("%d bytes are left of %d, %d are given away", left, budget, sum)
	}
}

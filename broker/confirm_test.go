package broker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
)

// queueNamed returns the machine behind a queue of the default virtual host.
func (b *testBroker) queueNamed(name string) *fakeQueue {
	b.tb.Helper()
	q, err := b.host.queue(b.host.Catalogue().View.Queue("/", name).ID)
	if err != nil {
		b.tb.Fatal(err)
	}
	return q
}

// TestConfirmsAreCoalesced: what is stored together is confirmed by one frame.
func TestConfirmsAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("q")
		r.confirm()
		r.warm()
		var burst []byte
		for range 50 {
			burst = append(burst, message(1, "", "q", nil)...)
		}
		r.write(burst)
		r.expect("basic.ack delivery-tag=50 multiple")
	})
}

// TestConfirmCountsFromSelect: publishes before confirm.select have no number.
func TestConfirmCountsFromSelect(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	b.queueNamed("q").freeze()
	r.write(message(1, "", "q", nil))
	r.write(message(1, "", "none", nil))
	r.confirm()
	r.confirm() // twice is no error and changes nothing
	r.write(message(1, "", "none", nil))
	r.expect("basic.ack delivery-tag=1")
	r.write(message(1, "", "q", nil))
	b.queueNamed("q").thaw()
	r.expect("basic.ack delivery-tag=2")
}

// TestConfirmWaitsForAllQueues: a copy that is not stored yet holds its confirm back, and only that.
func TestConfirmWaitsForAllQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("fast")
		r.declare("slow")
		for _, q := range []string{"fast", "slow"} {
			r.call(1, &amqp.QueueBind{Queue: q, Exchange: "amq.fanout"}, "queue.bind-ok")
		}
		r.confirm()
		slow := b.queueNamed("slow")
		slow.freeze()
		r.write(message(1, "", "fast", nil))
		r.expect("basic.ack delivery-tag=1")
		r.write(message(1, "amq.fanout", "", nil)) // 2
		r.write(message(1, "", "fast", nil))       // 3
		r.expect("basic.ack delivery-tag=3")
		r.write(message(1, "", "fast", nil)) // 4
		r.expect("basic.ack delivery-tag=4")
		slow.thaw()
		r.expect("basic.ack delivery-tag=2")
		r.write(message(1, "", "fast", nil))
		r.expect("basic.ack delivery-tag=5")
		if n := b.connections()[0].inflightCount.Load(); n != 0 {
			t.Errorf("%d publishes in flight", n)
		}
	})
}

// TestPublishTimeout: a publish that a queue does not answer in time is nacked, once; the late answer is dropped. Publishes to other queues go on.
func TestPublishTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("stuck")
		r.declare("fine")
		r.confirm()
		stuck := b.queueNamed("stuck")
		stuck.freeze()
		began := time.Now()
		r.write(message(1, "", "stuck", nil)) // 1
		r.write(message(1, "", "stuck", nil)) // 2
		r.expectSoon("basic.nack delivery-tag=1", "basic.nack delivery-tag=2")
		if d := time.Since(began); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("nacked after %v", d)
		}
		// What waits for ever does not keep later confirms apart.
		r.warm()
		for range 3 {
			r.write(append(message(1, "", "fine", nil), message(1, "", "fine", nil)...))
		}
		for tag := uint64(0); tag < 8; {
			m, ok := r.method().(*amqp.BasicAck)
			if !ok || !m.Multiple {
				t.Fatalf("got %v", m)
			}
			tag = m.DeliveryTag
		}
		stuck.thaw()
		r.sync(1)
		r.write(message(1, "", "stuck", nil))
		r.expect("basic.ack delivery-tag=9")
		if n := b.connections()[0].inflightBytes.Load(); n != 0 {
			t.Errorf("%d bytes in flight", n)
		}
		if n := b.Totals().Confirmed; n != 9 {
			t.Errorf("%d confirms counted", n)
		}
	})
}

// expectSoon is expect for several methods in order.
func (c *rawClient) expectSoon(wants ...string) {
	c.tb.Helper()
	for _, want := range wants {
		c.expect(want)
	}
}

// TestStragglerBelowTheRing: an old unanswered publish that the ring has spilled still holds multiple acks back.
func TestStragglerBelowTheRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("stuck")
		r.declare("fine")
		r.confirm()
		b.queueNamed("stuck").freeze()
		r.write(message(1, "", "stuck", nil))
		for n := uint64(2); n < 200; n++ {
			r.write(message(1, "", "fine", nil))
			if m, ok := r.method().(*amqp.BasicAck); !ok || m.DeliveryTag != n || m.Multiple {
				t.Fatalf("got %v, want a single ack of %d", m, n)
			}
		}
		r.expect("basic.nack delivery-tag=1")
	})
}

// TestQueueDeletedBeforeConfirm: a queue that is gone counts as one that has the message.
func TestQueueDeletedBeforeConfirm(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	r.confirm()
	b.queueNamed("q").freeze()
	r.write(message(1, "", "q", nil))
	r.send(1, &amqp.QueueDelete{Queue: "q"})
	got := []string{r.method().String(), r.method().String()} // the two come in either order
	if got[0] > got[1] {
		got[0], got[1] = got[1], got[0]
	}
	if got[0] != "basic.ack delivery-tag=1" || got[1] != "queue.delete-ok message-count=0" {
		t.Errorf("got %v", got)
	}
}

// TestPublishersAreHeldBack: beyond the bytes in flight a connection is not read, other connections and heartbeats go on, and all is confirmed in the end.
func TestPublishersAreHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t, func(o *Options) { o.PublishTimeout = time.Hour })
		r, other := b.raw(), b.open()
		r.login("guest", amqp.ConnectionTuneOk{Heartbeat: 10})
		r.call(1, &amqp.ChannelOpen{}, "channel.open-ok")
		r.declare("q")
		other.declare("other")
		b.queueNamed("q").freeze()
		body := make([]byte, 1<<20)
		const n = limits.UnconfirmedBytesMax/(1<<20) + 20
		sent, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			for ; sent < n; sent++ {
				r.write(message(1, "", "q", body))
			}
		}()
		for range 6 { // a minute
			if f := r.frame(); f.Type != amqp.FrameHeartbeat {
				t.Fatalf("frame type %d", f.Type)
			}
		}
		synctest.Wait()
		if most := limits.UnconfirmedBytesMax/(1<<20) + 2; sent > most || sent < most-4 {
			t.Errorf("%d MiB were taken", sent)
		}
		if s := b.Connections()[0].State; s != "flow" {
			t.Errorf("the connection is %s", s)
		}
		other.sync(1)
		b.queueNamed("q").thaw()
		<-done
		r.sync(1)
	})
}

// warm gives the connection's reader its buffer: the first read after a pause takes a few octets only.
func (c *rawClient) warm() {
	c.tb.Helper()
	var b []byte
	for range 20 {
		b = amqp.AppendHeartbeat(b)
	}
	c.write(b)
	c.sync(1)
}

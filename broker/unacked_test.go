package broker

import (
	"bytes"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
)

const (
	unackedBody = 100_000
	unackedMost = 3 << 20
	// unackedHigh is the most deliveries that a consumer may have to acknowledge: the limit, its window and one message.
	unackedHigh = (unackedMost+limits.ConnectionWindowBytes)/unackedBody + 1
	unackedSent = 3 * unackedHigh
)

// startUnacked starts a broker whose channels may have unackedMost to acknowledge, and a client with unackedSent messages in q. got counts its deliveries from now on.
func startUnacked(t *testing.T) (b *testBroker, r *rawClient, got *atomic.Int64) {
	b = startBroker(t, func(o *Options) { o.UnackedBytesMax = unackedMost })
	r = b.open()
	r.declare("q")
	body := bytes.Repeat([]byte("x"), unackedBody)
	for range unackedSent {
		r.write(message(1, "", "q", body))
	}
	r.sync(1)
	got = new(atomic.Int64)
	go func() {
		for {
			f, err := r.r.ReadFrame()
			if err != nil {
				return
			}
			if f.Type == amqp.FrameMethod && f.Method() == amqp.MethodBasicDeliver {
				got.Add(1)
			}
		}
	}()
	return b, r, got
}

// quiet waits until nothing is under way and returns the count.
func quiet(got *atomic.Int64) uint64 {
	time.Sleep(time.Second)
	synctest.Wait()
	return uint64(got.Load())
}

// TestUnackedBytesAreBounded: without a prefetch a channel gets as many bytes as it may have to acknowledge, and more when it has settled some, by whatever method.
func TestUnackedBytesAreBounded(t *testing.T) {
	for _, c := range []struct {
		name   string
		settle func(r *rawClient, through uint64)
	}{
		{"ack", func(r *rawClient, through uint64) { r.send(1, &amqp.BasicAck{DeliveryTag: through, Multiple: true}) }},
		{"nack", func(r *rawClient, through uint64) { r.send(1, &amqp.BasicNack{DeliveryTag: through, Multiple: true}) }},
		{"reject", func(r *rawClient, through uint64) {
			for tag := range through {
				r.send(1, &amqp.BasicReject{DeliveryTag: tag + 1})
			}
		}},
		{"commit", func(r *rawClient, through uint64) {
			r.send(1, &amqp.TxSelect{}, &amqp.BasicAck{DeliveryTag: through, Multiple: true}, &amqp.TxCommit{})
		}},
		{"recover", func(r *rawClient, _ uint64) { r.send(1, &amqp.BasicRecover{Requeue: true}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, r, got := startUnacked(t)
				r.send(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "c"})
				first := quiet(got)
				if first < unackedMost/unackedBody || first > unackedHigh {
					t.Fatalf("%d deliveries of %d bytes to a client that acknowledges nothing", first, unackedBody)
				}
				c.settle(r, first-1)
				second := quiet(got) - first
				if second < unackedMost/unackedBody || second > unackedHigh {
					t.Errorf("%d more deliveries when %d of %d were settled", second, first-1, first)
				}
			})
		})
	}
}

// TestUnackedBytesOfOthers: a channel at its limit takes nothing from other channels, from consumers without acknowledgement, nor from basic.get.
func TestUnackedBytesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, got := startUnacked(t)
		r.send(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "c"})
		first := quiet(got)
		other := b.open()
		other.declare("free")
		const n = 500
		body := bytes.Repeat([]byte("x"), unackedBody)
		r.send(1, &amqp.BasicConsume{Queue: "free", ConsumerTag: "free", NoAck: true})
		for range n {
			other.write(message(1, "", "free", body))
		}
		other.sync(1)
		if more := quiet(got) - first; more != n {
			t.Errorf("%d of %d deliveries without acknowledgement", more, n)
		}
		for range 2 * unackedMost / unackedBody { // more than a channel may have
			other.send(1, &amqp.BasicGet{Queue: "q"})
			if m, ok := other.method().(*amqp.BasicGetOk); !ok {
				t.Fatalf("got %v", m)
			}
			other.content()
		}
		before := got.Load()
		r.send(1, &amqp.BasicAck{Multiple: true})
		if quiet(got) == uint64(before) {
			t.Error("nothing more after everything was acknowledged")
		}
	})
}

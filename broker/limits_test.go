package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/config/limits"
)

// TestAnnouncedBodies: a body that is too large is refused at the content header; a size that no message can have, also one that is negative as an int64, ends the connection.
func TestAnnouncedBodies(t *testing.T) {
	b := startBroker(t)
	announce := func(r *rawClient, size uint64) {
		f := (&amqp.BasicPublish{RoutingKey: "q"}).AppendFrame(nil, 1)
		r.write(amqp.AppendHeaderFrame(f, 1, amqp.ClassBasic, size, nil))
	}
	r := b.open()
	for _, size := range []uint64{limits.BodyBytesMax + 1, 512 << 20} {
		announce(r, size)
		r.closed(1, amqp.MethodBasicPublish, fmt.Sprintf("406 PRECONDITION_FAILED - message size %d is larger than configured max size %d", size, limits.BodyBytesMax))
	}
	for _, size := range []uint64{512<<20 + 1, 1 << 63, 1<<64 - 1} {
		r := b.open()
		announce(r, size)
		r.dies(fmt.Sprintf("501 FRAME_ERROR - content body size %d exceeds maximum allowed size %d", size, 512<<20))
	}
}

func TestConsumersPerChannelMax(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.declare("q")
	for i := range limits.ConsumersPerChannelMax {
		r.consume("q", fmt.Sprint(i), false)
	}
	r.send(1, &amqp.BasicConsume{Queue: "q"})
	r.dies("530 NOT_ALLOWED - reached maximum (1024) of consumers per channel")
}

// TestUnconfirmedPublishesMax: a connection with so many publishes that are not answered is not read.
func TestUnconfirmedPublishesMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t, func(o *Options) { o.PublishTimeout = time.Hour })
		r := b.raw()
		r.login("guest", amqp.ConnectionTuneOk{})
		r.call(1, &amqp.ChannelOpen{}, "channel.open-ok")
		r.declare("q")
		b.queueNamed("q").freeze()
		const ahead = 4096 // what fits a buffer that was read
		const n = limits.UnconfirmedPublishesMax + 2*ahead
		one := message(1, "", "q", make([]byte, 100))
		sent, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			for ; sent < n; sent++ {
				r.write(one)
			}
		}()
		synctest.Wait()
		if sent < limits.UnconfirmedPublishesMax || sent > limits.UnconfirmedPublishesMax+ahead {
			t.Errorf("%d publishes were taken", sent)
		}
		b.queueNamed("q").thaw()
		<-done
		r.sync(1)
	})
}

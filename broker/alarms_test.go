package broker

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/internal/alarm"
	"github.com/warrenmq/warren/quorum"
)

// lackingHost is a fakeHost whose cluster is short of what a test says.
type lackingHost struct {
	*fakeHost
	lack atomic.Uint32
}

func (h *lackingHost) Alarms() []quorum.NodeAlarms {
	return []quorum.NodeAlarms{{Node: 7, Lack: alarm.Set(h.lack.Load())}, {Node: 9}}
}

func startLacking(t *testing.T) (*testBroker, *lackingHost) {
	t.Helper()
	var h *lackingHost
	b := startBroker(t, func(o *Options) {
		h = &lackingHost{fakeHost: o.Host.(*fakeHost)}
		o.Host = h
	})
	return b, h
}

// short changes what the cluster is short of, and waits until the broker knows.
func (h *lackingHost) short(b *testBroker, lack alarm.Set) {
	h.lack.Store(uint32(lack))
	b.until(func() bool { return b.lack() == lack })
}

func (b *testBroker) until(f func() bool) {
	b.tb.Helper()
	deadline := time.After(10 * time.Second)
	for !f() {
		select {
		case <-deadline:
			b.tb.Fatal("it did not happen")
		case <-time.After(time.Millisecond):
		}
	}
}

func (b *testBroker) states() (list []string) {
	for _, c := range b.Connections() {
		list = append(list, c.State)
	}
	return list
}

func (b *testBroker) wantStates(want ...string) {
	b.tb.Helper()
	b.until(func() bool {
		got := b.states()
		if len(got) != len(want) {
			return false
		}
		for i := range got {
			if got[i] != want[i] {
				return false
			}
		}
		return true
	})
}

var blockedCapability = amqp.Table{{Key: "capabilities", Value: amqp.Nested(amqp.Table{{Key: "connection.blocked", Value: amqp.Bool(true)}})}}

// TestAlarmBlocksPublishers: who published during an alarm is told once and not read any more; what it had published is confirmed, what it sends meanwhile is taken later. Who consumes goes on.
func TestAlarmBlocksPublishers(t *testing.T) {
	b, h := startLacking(t)
	publisher := b.raw()
	publisher.loginWith("guest", blockedCapability, amqp.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072})
	publisher.call(1, &amqp.ChannelOpen{}, "channel.open-ok")
	publisher.call(1, &amqp.QueueDeclare{Queue: "q"}, `queue.declare-ok queue="q" message-count=0 consumer-count=0`)
	publisher.call(1, &amqp.ConfirmSelect{}, "confirm.select-ok")
	publisher.write(message(1, "", "q", []byte("before")))
	publisher.expect("basic.ack delivery-tag=1")
	consumer := b.open()
	consumer.call(1, &amqp.BasicConsume{Queue: "q", ConsumerTag: "c"}, `basic.consume-ok consumer-tag="c"`)
	delivered := func(tag uint64, body string) {
		t.Helper()
		if m, ok := consumer.method().(*amqp.BasicDeliver); !ok || m.DeliveryTag != tag {
			t.Fatalf("got %v", m)
		}
		if _, got := consumer.content(); string(got) != body {
			t.Fatalf("got %q, want %q", got, body)
		}
	}
	delivered(1, "before")
	b.wantStates("running", "running")

	h.short(b, alarm.Memory)
	b.wantStates("blocking", "blocking")
	publisher.sync(1) // one that does not publish is read
	go publisher.write(append(message(1, "", "q", []byte("first")), message(1, "", "q", []byte("second"))...))
	publisher.expect(`connection.blocked reason="low on memory"`)
	publisher.expect("basic.ack delivery-tag=2")
	b.wantStates("blocked", "blocking")
	delivered(2, "first")
	consumer.send(1, &amqp.BasicAck{DeliveryTag: 2})
	consumer.sync(1)
	_, err := b.Publish(context.Background(), "guest", "/", "", "q", new(amqp.Properties).Append(nil), nil)
	if blocked := (*BlockedError)(nil); !errors.As(err, &blocked) || blocked.Reason != "low on memory" {
		t.Errorf("publish over HTTP: %v", err)
	}
	h.short(b, alarm.Memory|alarm.Disk) // it is not told again

	h.short(b, 0)
	publisher.expect("connection.unblocked")
	publisher.expect("basic.ack delivery-tag=3")
	delivered(3, "second")
	b.wantStates("running", "running")
	publisher.sync(1)
}

// TestBlockedWithoutTheCapability: a client that does not know of it is blocked without a word.
func TestBlockedWithoutTheCapability(t *testing.T) {
	b, h := startLacking(t)
	c := b.open()
	c.call(1, &amqp.QueueDeclare{Queue: "q"}, `queue.declare-ok queue="q" message-count=0 consumer-count=0`)
	c.call(1, &amqp.ConfirmSelect{}, "confirm.select-ok")
	h.short(b, alarm.Disk)
	c.write(message(1, "", "q", nil))
	c.expect("basic.ack delivery-tag=1")
	b.wantStates("blocked")
	h.short(b, 0)
	c.sync(1)
	b.wantStates("running")
}

// TestDiskFloorNacks: below the floor a publish is refused.
func TestDiskFloorNacks(t *testing.T) {
	b, h := startLacking(t)
	c := b.open()
	c.call(1, &amqp.QueueDeclare{Queue: "q"}, `queue.declare-ok queue="q" message-count=0 consumer-count=0`)
	c.call(1, &amqp.ConfirmSelect{}, "confirm.select-ok")
	h.short(b, alarm.Disk|alarm.DiskFull)
	c.write(message(1, "", "q", nil))
	c.expect("basic.nack delivery-tag=1")
	b.wantStates("blocked")
	h.short(b, 0)
	c.call(1, &amqp.BasicGet{Queue: "q"}, "basic.get-empty")
}

// TestForcedCloseOfBlocked: a blocked client can be closed by the broker.
func TestForcedCloseOfBlocked(t *testing.T) {
	b, h := startLacking(t)
	c := b.open()
	h.short(b, alarm.Disk)
	c.write(message(1, "amq.fanout", "", nil))
	b.wantStates("blocked")
	b.CloseAll("enough")
	c.dies("320 CONNECTION_FORCED - enough")
	b.wantStates()
}

// TestDeadBlockedClient: a client that is gone while it is blocked is found, though there is input in front of the end of its stream and nothing is written to it.
func TestDeadBlockedClient(t *testing.T) {
	b, h := startLacking(t)
	nc, err := net.Dial("tcp", b.listen())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := socketState(nc); !ok {
		t.Skip("the platform does not tell how a socket is")
	}
	c := b.rawOn(nc)
	c.login("guest", amqp.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072})
	c.call(1, &amqp.ChannelOpen{}, "channel.open-ok")
	h.short(b, alarm.Disk)
	c.write(message(1, "amq.fanout", "", nil))
	b.wantStates("blocked")
	c.write(message(1, "amq.fanout", "", nil))
	_ = nc.Close()
	b.wantStates()
}

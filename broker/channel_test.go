package broker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
)

func TestConnectionErrors(t *testing.T) {
	header := func(class uint16, size uint64) []byte { return amqp.AppendHeaderFrame(nil, 1, class, size, nil) }
	publish := (&amqp.BasicPublish{RoutingKey: "q"}).AppendFrame(nil, 1)
	for _, c := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"ack on a channel never opened", (&amqp.BasicAck{DeliveryTag: 1}).AppendFrame(nil, 2), "504 CHANNEL_ERROR - expected 'channel.open'"},
		{"channel opened twice", (&amqp.ChannelOpen{}).AppendFrame(nil, 1), "504 CHANNEL_ERROR - second 'channel.open' seen"},
		{"connection.open again", (&amqp.ConnectionOpen{VirtualHost: "/"}).AppendFrame(nil, 0), "504 CHANNEL_ERROR - unexpected method in connection state running"},
		{"heartbeat on a channel", []byte{8, 0, 1, 0, 0, 0, 0, 206}, "505 UNEXPECTED_FRAME - type 8, all octets = <<>>"},
		{"header on channel 0", amqp.AppendHeaderFrame(nil, 0, 60, 0, nil), "505 UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,0,0,0>>"},
		{"wrong end octet", []byte{1, 0, 1, 0, 0, 0, 4, 0, 20, 0, 40, 0}, "501 FRAME_ERROR - type 1, all octets = <<0,20,0,40>>: {invalid_frame_end_marker,0}"},
		{"oversized frame", []byte{1, 0, 1, 0, 9, 0, 0}, "501 FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,589824,131064}"},
		{"method instead of a header", append(publish, publish...), "505 UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"},
		{"method instead of a body", append(append(append([]byte(nil), publish...), header(60, 5)...), publish...), "505 UNEXPECTED_FRAME - expected content body, got non content body frame instead"},
		{"header of another class", append(append([]byte(nil), publish...), header(50, 5)...), "505 UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"},
		{"body without a method", []byte{3, 0, 1, 0, 0, 0, 1, 65, 206}, "505 UNEXPECTED_FRAME - expected method frame, got non method frame instead"},
		{"body too long", append(append(append([]byte(nil), publish...), header(60, 1)...), 3, 0, 1, 0, 0, 0, 2, 65, 65, 206), "501 FRAME_ERROR - content body frame exceeds remaining content size"},
		{"unknown method", []byte{1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 99, 206}, "503 COMMAND_INVALID - unimplemented method"},
		{"flow off", (&amqp.ChannelFlow{}).AppendFrame(nil, 1), "540 NOT_IMPLEMENTED - active=false"},
		{"prefetch size", (&amqp.BasicQos{PrefetchSize: 7}).AppendFrame(nil, 1), "540 NOT_IMPLEMENTED - prefetch_size!=0 (7)"},
		{"recover without requeue", (&amqp.BasicRecover{}).AppendFrame(nil, 1), "540 NOT_IMPLEMENTED - requeue=false"},
		{"truncated properties", append(append([]byte(nil), publish...), amqp.AppendHeaderFrame(nil, 1, 60, 0, []byte{0x80, 0, 9})...), "502 SYNTAX_ERROR - malformed content properties: octets are missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := startBroker(t)
			bystander := b.open()
			r := b.open()
			r.write(c.bytes)
			r.dies(c.want)
			bystander.sync(1)
		})
	}
}

// TestTruncatedTable: a table that ends inside an entry is refused before anything is made of it.
func TestTruncatedTable(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	f := (&amqp.QueueDeclare{Queue: "q", Arguments: amqp.Table{{Key: "a", Value: amqp.Longstr("abc")}}}).AppendFrame(nil, 1)
	f[len(f)-5] = 200 // the length of the string
	r.write(f)
	m, ok := r.method().(*amqp.ConnectionClose)
	if !ok || m.ReplyCode != amqp.ReplySyntaxError && m.ReplyCode != amqp.ReplyFrameError {
		t.Fatalf("got %v", m)
	}
}

func TestAllChannelsUsed(t *testing.T) {
	b := startBroker(t)
	r := b.raw()
	r.login("guest", amqp.ConnectionTuneOk{ChannelMax: 3})
	for _, n := range []uint16{1, 700, 65535} { // the limit is on the number of channels, not on their numbers
		r.call(n, &amqp.ChannelOpen{}, "channel.open-ok")
	}
	r.call(700, &amqp.ChannelClose{}, "channel.close-ok")
	r.call(2, &amqp.ChannelOpen{}, "channel.open-ok")
	r.send(4, &amqp.ChannelOpen{})
	r.dies("530 NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)")
}

func TestChannelNumberReused(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	for range 100 {
		r.send(1, &amqp.ChannelClose{}, &amqp.ChannelOpen{}) // does not wait for close-ok
		r.expect("channel.close-ok")
		r.expect("channel.open-ok")
	}
	if n := b.Connections()[0].Channels; n != 1 {
		t.Errorf("%d channels", n)
	}
}

// TestFramesAfterChannelError: once the server has closed a channel, everything but the methods of closing is ignored, a half message included.
func TestFramesAfterChannelError(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.send(1, &amqp.QueueDeclare{Queue: "none", Passive: true})
	r.expect(`channel.close reply-code=404 reply-text="NOT_FOUND - no queue 'none' in vhost '/'" class-id=50 method-id=10`)
	r.write(message(1, "", "none", []byte("lost")))
	r.send(1, &amqp.BasicAck{DeliveryTag: 9}, &amqp.BasicPublish{RoutingKey: "none"}, &amqp.QueueDeclare{Queue: "q"})
	r.send(1, &amqp.ChannelClose{}) // the client closes at the same moment
	r.expect("channel.close-ok")
	r.send(1, &amqp.ChannelCloseOk{}, &amqp.ChannelOpen{})
	r.expect("channel.open-ok")
	r.fails(1, &amqp.QueueDeclare{Queue: "q", Passive: true}, "404 NOT_FOUND - no queue 'q' in vhost '/'")
}

func TestConnectionCloseByClient(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.call(1, &amqp.QueueDeclare{Queue: "q", Durable: true}, `queue.declare-ok queue="q" message-count=0 consumer-count=0`)
	// What was sent before the close is done although nobody waited for it.
	r.send(1, &amqp.QueueBind{Queue: "q", Exchange: "amq.fanout", NoWait: true}, &amqp.QueueDeclare{Queue: "late", Durable: true, NoWait: true})
	r.write(message(1, "amq.fanout", "", []byte("m")))
	r.send(0, &amqp.ConnectionClose{ReplyCode: 200})
	r.expect("connection.close-ok")
	r.ends()
	view := b.host.Catalogue().View
	if view.Queue("/", "late") == nil {
		t.Error("the queue declared last is missing")
	}
	b.eventually("the message is there", func() bool { // the connection does not wait for what asks for no answer
		st, _ := b.host.QueueStatus(view.Queue("/", "q").ID)
		return st.Counts.Ready == 1
	})
}

// TestCloseCrossing: both sides close at once.
func TestCloseCrossing(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	if !b.CloseConnection(b.Connections()[0].Name, "Closed via management plugin") {
		t.Fatal("no such connection")
	}
	r.expect(`connection.close reply-code=320 reply-text="CONNECTION_FORCED - Closed via management plugin" class-id=0 method-id=0`)
	r.call(0, &amqp.ConnectionClose{}, "connection.close-ok")
	r.send(0, &amqp.ConnectionCloseOk{})
	r.ends()
	if b.CloseConnection("nobody", "x") {
		t.Error("closed a connection that does not exist")
	}
}

func TestCloseOkThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		began := time.Now()
		b.CloseConnection(b.Connections()[0].Name, "x")
		if m := r.method().String(); !strings.HasPrefix(m, "connection.close ") {
			t.Fatal(m)
		}
		r.ends()
		if d := time.Since(began); d < 30*time.Second || d > 32*time.Second {
			t.Errorf("closed after %v", d)
		}
	})
}

func TestOddMethods(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	r.call(1, &amqp.ChannelFlow{Active: true}, "channel.flow-ok active")
	r.call(1, &amqp.AccessRequest{Realm: "/data"}, "access.request-ok ticket=1")
	r.call(0, &amqp.ConnectionUpdateSecret{NewSecret: "x"}, "connection.update-secret-ok")
	r.call(1, &amqp.BasicRecover{Requeue: true}, "basic.recover-ok")
	r.send(1, &amqp.BasicRecoverAsync{Requeue: true})
	r.call(1, &amqp.BasicCancel{ConsumerTag: "none"}, `basic.cancel-ok consumer-tag="none"`)
	r.write(amqp.AppendHeartbeat(nil))
	r.sync(1)
}

func TestVHostAndUserDeleted(t *testing.T) {
	b := startBroker(t)
	r := b.open()
	b.changed(deletedUser("somebody"))
	r.sync(1)
	b.changed(deletedUser("guest"))
	r.dies("320 CONNECTION_FORCED - user 'guest' is deleted")
	r = b.open()
	b.changed(deletedVHost("/"))
	r.dies("320 CONNECTION_FORCED - vhost '/' is deleted")
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		polite, rude := b.open(), b.open()
		done := make(chan error)
		go func() { done <- b.Shutdown(t.Context()) }()
		for _, r := range []*rawClient{polite, rude} {
			r.expect(`connection.close reply-code=320 reply-text="CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'" class-id=0 method-id=0`)
		}
		polite.send(0, &amqp.ConnectionCloseOk{})
		polite.ends()
		if err := <-done; err != nil { // the rude one is cut after a while
			t.Error(err)
		}
		b.raw().ends()
	})
}

// TestPanicIsContained: a bug that one connection hits closes that connection.
func TestPanicIsContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		bystander, r := b.open(), b.open()
		r.sync(1)
		b.connections()[1].channel(1).session = nil
		bystander.call(1, &amqp.QueueDeclare{Queue: "q"}, `queue.declare-ok queue="q" message-count=0 consumer-count=0`)
		r.write(message(1, "", "q", nil))
		r.dies("541 INTERNAL_ERROR - internal error")
		bystander.sync(1)
	})
}

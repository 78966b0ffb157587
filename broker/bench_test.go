package broker

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/warrenmq/warren/amqp"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/quorum"
)

// BenchmarkThrough is a message all the way: publish, confirm, deliver, ack, over loopback sockets with pre-encoded frames. What it allocates includes the fake
// queue, which keeps each batch.
func BenchmarkThrough(b *testing.B) {
	for _, size := range []int{16, 1024} {
		b.Run(map[int]string{16: "16B", 1024: "1KiB"}[size], func(b *testing.B) { benchmarkThrough(b, size) })
	}
}

func benchmarkThrough(b *testing.B, size int) {
	broker := startBroker(b)
	addr := broker.listen()
	dial := func() *rawClient {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		c := broker.rawOn(nc)
		c.login("guest", amqp.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 131072})
		c.send(1, &amqp.ChannelOpen{})
		c.expect("channel.open-ok")
		return c
	}
	publisher, consumer := dial(), dial()
	publisher.send(1, &amqp.QueueDeclare{Queue: "q", Exclusive: false}, &amqp.ConfirmSelect{})
	publisher.method()
	publisher.method()
	consumer.send(1, &amqp.BasicQos{PrefetchCount: 1000}, &amqp.BasicConsume{Queue: "q", ConsumerTag: "c"})
	consumer.method()
	consumer.method()
	const burst, window = 50, 1000
	frames := message(1, "", "q", make([]byte, size))
	var batch []byte
	for range burst {
		batch = append(batch, frames...)
	}
	b.ReportAllocs()
	b.SetBytes(int64(size))
	b.ResetTimer()
	done := make(chan struct{})
	go func() { // the consumer acks every 200
		defer close(done)
		for got := 0; got < b.N; {
			f := consumer.frame()
			if f.Type == amqp.FrameMethod {
				got++
				if got%200 == 0 || got == b.N {
					consumer.send(1, &amqp.BasicAck{DeliveryTag: uint64(got), Multiple: true})
				}
			}
		}
	}()
	for sent, confirmed := 0, uint64(0); confirmed < uint64(b.N); {
		for sent < b.N && uint64(sent)-confirmed < window {
			n := min(burst, b.N-sent)
			publisher.write(batch[:n*len(frames)])
			sent += n
		}
		f := publisher.frame()
		if f.Method() != amqp.MethodBasicAck {
			b.Fatalf("method %v", f.Method())
		}
		confirmed = max(confirmed, binary.BigEndian.Uint64(f.Payload[4:]))
	}
	<-done
}

// nullSession takes commands and forgets them.
type nullSession struct {
	record bool
	tokens []uint64
}

func (s *nullSession) Submit(_ meta.QueueID, _ *queue.Command, token uint64) error {
	if s.record {
		s.tokens = append(s.tokens, token)
	}
	return nil
}
func (s *nullSession) Flush()                                                 {}
func (s *nullSession) AskTx(meta.QueueID, queue.TxNumber) (bool, error)       { return false, nil }
func (s *nullSession) ID() queue.SessionID                                    { return 1 }
func (s *nullSession) Close(func(meta.QueueID) uint64, uint64) []meta.QueueID { return nil }

// nullConn takes what is written and never has anything to read.
type nullConn struct{ net.Conn }

func (nullConn) Write(b []byte) (int, error) { return len(b), nil }

// benchChannel is an open channel without a client and without queues behind it.
func benchChannel(b *testing.B) (*channel, *nullSession, *meta.Queue) {
	broker := startBroker(b)
	r := broker.open()
	r.declare("q")
	c := broker.connections()[0]
	ch := c.channel(1)
	s := &nullSession{}
	session, socket := ch.session, c.nc
	ch.session, c.nc = s, nullConn{c.nc}
	b.Cleanup(func() { ch.session, c.nc = session, socket }) // so that the broker can end
	return ch, s, broker.host.Catalogue().View.Queue("/", "q")
}

// BenchmarkPublish is a publish from its frames to the pipeline, and its confirm.
func BenchmarkPublish(b *testing.B) {
	ch, s, q := benchChannel(b)
	ch.confirm.on = true
	s.record = true
	w := &work{}
	stream := message(1, "", "q", make([]byte, 1024), func(_ *amqp.BasicPublish, p *amqp.Properties) { p.SetDeliveryMode(2) })
	var frames []amqp.Frame
	r := amqp.NewReader(bytes.NewReader(stream), nil, 131072)
	for {
		f, err := r.ReadFrame()
		if err != nil {
			break
		}
		frames = append(frames, amqp.Frame{Type: f.Type, Channel: f.Channel, Payload: bytes.Clone(f.Payload)})
	}
	done := make([]quorum.Completion, 0, 64)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for _, f := range frames {
			if err := ch.handle(f, w); err != nil {
				b.Fatal(err)
			}
		}
		if i%64 == 63 {
			w.flush()
			done = done[:0]
			for _, token := range s.tokens {
				done = append(done, quorum.Completion{Token: token})
			}
			s.tokens = s.tokens[:0]
			ch.Completed(q.ID, done)
		}
	}
}

// BenchmarkDeliver is a delivery from the queue to the output, and its ack, 64 at a time.
func BenchmarkDeliver(b *testing.B) {
	ch, _, q := benchChannel(b)
	cons := ch.addConsumer(&amqp.BasicConsume{ConsumerTag: "c"}, q)
	cons.announced = true
	w := &work{}
	ch.w = w
	env := AppendEnvelope(nil, &Envelope{RoutingKey: []byte("q"), Properties: []byte{0x10, 0, 2}, Body: make([]byte, 1024)})
	deliveries := make([]quorum.Delivery, 64)
	d := uint64(0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%64 != 0 {
			continue
		}
		for j := range deliveries {
			d++
			deliveries[j] = quorum.Delivery{Consumer: cons.id, D: d, Seq: queue.Seq(d), Envelope: env}
		}
		ch.Deliver(q.ID, deliveries)
		if err := ch.settle(d, true, queue.OutcomeAck); err != nil {
			b.Fatal(err)
		}
		w.flush()
		ch.c.flushed(time.Second) // windows hold a queue back as this does
	}
}

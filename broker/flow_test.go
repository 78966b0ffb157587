package broker

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/amqp"
)

// TestLargeFanOut: one message may be worth more than the limit of bytes in flight because it goes to many queues; it is published nevertheless.
func TestLargeFanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		const queues = 12
		for i := range queues {
			q := fmt.Sprint("q", i)
			r.declare(q)
			r.call(1, &amqp.QueueBind{Queue: q, Exchange: "amq.fanout"}, "queue.bind-ok")
		}
		r.confirm()
		body := bytes.Repeat([]byte("x"), 8<<20)
		r.write(message(1, "amq.fanout", "", body))
		r.expect("basic.ack delivery-tag=1")
		for i := range queues {
			if n := b.queueNamed(fmt.Sprint("q", i)).counts().Ready; n != 1 {
				t.Errorf("queue %d has %d messages", i, n)
			}
		}
	})
}

// TestBacklogIsBounded: a channel that waits for a queue takes a bounded number of frames, and carries all of them out in order when it goes on.
func TestBacklogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBroker(t)
		r := b.open()
		r.declare("slow")
		r.declare("q")
		b.queueNamed("slow").freeze()
		r.send(1, &amqp.BasicGet{Queue: "slow"})
		const n = 2000
		sent, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			for ; sent < n; sent++ {
				r.write(message(1, "", "q", bytes.Repeat([]byte{byte(sent)}, 1000)))
			}
		}()
		synctest.Wait()
		if sent > 400 || sent < 200 {
			t.Errorf("%d messages of 1 kB were taken", sent)
		}
		ch := b.connections()[0].channel(1)
		ch.mu.Lock()
		aside := ch.setAside
		ch.mu.Unlock()
		if aside > backlogBytesMax {
			t.Errorf("%d bytes are set aside", aside)
		}
		b.queueNamed("slow").thaw()
		r.expect("basic.get-empty")
		<-done
		r.consume("q", "c", true)
		for i := range n {
			if _, _, body := r.delivery(); body[0] != byte(i) {
				t.Fatalf("message %d has %d in it", i, body[0])
			}
		}
	})
}

// TestRepliesAreBounded: a client that asks and does not read the answers is not read any more.
func TestRepliesAreBounded(t *testing.T) {
	for _, how := range []string{"returns", "gets"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := startBroker(t)
				r, other := b.open(), b.open()
				r.declare("q")
				body := make([]byte, 10_000)
				if how == "gets" {
					for range 1000 {
						other.write(message(1, "", "q", body))
					}
					other.sync(1)
				}
				sent := 0
				go func() {
					for ; sent < 1000; sent++ {
						f := message(1, "", "none", body, mandatory)
						if how == "gets" {
							f = (&amqp.BasicGet{Queue: "q"}).AppendFrame(nil, 1)
						}
						if _, err := r.nc.Write(f); err != nil {
							return
						}
					}
				}()
				time.Sleep(time.Second)
				c := b.connections()[0]
				c.out.mu.Lock()
				pending := c.out.bodyBytes
				if c.out.buf != nil {
					pending += len(c.out.buf.b)
				}
				c.out.mu.Unlock()
				if pending > repliesBytesMax+200_000 {
					t.Errorf("%d bytes of answers wait", pending)
				}
				other.sync(1)
				time.Sleep(40 * time.Second) // its writes stall
				if n := len(b.Connections()); n != 1 {
					t.Errorf("%d connections", n)
				}
			})
		})
	}
}

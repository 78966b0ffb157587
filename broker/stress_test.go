package broker

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/amqp"
)

// TestManyClients opens and closes connections that publish, consume, fail and break off, all at once; nothing is lost and nothing stays behind.
func TestManyClients(t *testing.T) {
	const clients, messages = 200, 20
	b := startBroker(t)
	control := b.open()
	control.declare("all")
	var wg sync.WaitGroup
	for i := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			conn, err := amqp091.Open(b.dial(), amqp091.Config{SASL: []amqp091.Authentication{&amqp091.PlainAuth{Username: "guest", Password: "guest"}}, Vhost: "/"})
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			if err := oneClient(conn, i, messages); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
			_ = conn.Close()
		}()
	}
	wg.Wait()
	control.call(1, &amqp.QueueDeclare{Queue: "all", Passive: true}, fmt.Sprintf(`queue.declare-ok queue="all" message-count=%d consumer-count=0`, clients*messages))
	deadline := time.Now().Add(10 * time.Second)
	for len(b.Connections()) > 1 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	totals := b.Totals()
	if totals.ConnectionsOpened != clients+1 || totals.ConnectionsClosed != clients {
		t.Errorf("%d connections opened, %d closed", totals.ConnectionsOpened, totals.ConnectionsClosed)
	}
	view := b.host.Catalogue().View
	if n := view.QueueCount("/"); n != 1 {
		t.Errorf("%d queues are left", n)
	}
}

// oneClient publishes to the common queue with confirms, and through an exclusive queue of its own to itself; every third breaks its channel on the way.
func oneClient(conn *amqp091.Connection, i, messages int) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if i%3 == 0 {
		if _, err := ch.QueueDeclarePassive("none", false, false, false, false, nil); err == nil {
			return fmt.Errorf("a missing queue was found")
		}
		if ch, err = conn.Channel(); err != nil {
			return err
		}
	}
	q, err := ch.QueueDeclare("", false, false, true, false, nil)
	if err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(q.Name, "", i%2 == 0, false, false, false, nil)
	if err != nil {
		return err
	}
	for n := range messages {
		for _, key := range []string{"all", q.Name} {
			c, err := ch.PublishWithDeferredConfirm("", key, false, false, amqp091.Publishing{Body: []byte(strconv.Itoa(n))})
			if err != nil {
				return err
			}
			if !c.Wait() {
				return fmt.Errorf("nacked")
			}
		}
		d := <-deliveries
		if string(d.Body) != strconv.Itoa(n) {
			return fmt.Errorf("got %q, want %d", d.Body, n)
		}
		if i%2 != 0 {
			if err := d.Ack(false); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestGarbage sends random frames, well-formed and not, on connections of their own: each ends with an error or goes on, the broker lives.
func TestGarbage(t *testing.T) {
	b := startBroker(t)
	bystander := b.open()
	bystander.declare("q")
	ids := amqp.MethodIDs()
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 3))
		r := b.open()
		go func() { _, _ = io.Copy(io.Discard, r.nc) }()
		var stream []byte
		for range 1 + rng.IntN(20) {
			switch rng.IntN(6) {
			case 0:
				stream = append(stream, message(uint16(rng.IntN(3)), "", "q", make([]byte, rng.IntN(200)))...)
			case 1:
				junk := make([]byte, rng.IntN(64))
				for i := range junk {
					junk[i] = byte(rng.Uint32())
				}
				stream = append(stream, junk...)
			default:
				f := amqp.NewMethod(ids[rng.IntN(len(ids))]).AppendFrame(nil, uint16(rng.IntN(3)))
				if rng.IntN(4) == 0 {
					f[rng.IntN(len(f))] ^= 1 << rng.IntN(8)
				}
				stream = append(stream, f...)
			}
		}
		_ = r.nc.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = r.nc.Write(stream)
		_ = r.nc.Close()
	}
	bystander.publish("q", "m")
	bystander.sync(1)
}

// TestIdleConnectionIsSmall: what an idle connection with one channel takes, goroutine stacks and all.
func TestIdleConnectionIsSmall(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("measures memory")
	}
	b := startBroker(t)
	addr := b.listen()
	const n = 500
	memory := func() int {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc + m.StackInuse)
	}
	clients := make([]net.Conn, n)
	greet := func(i int) {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		clients[i] = nc
		r := &rawClient{tb: t, nc: nc, r: amqp.NewReader(nc, nil, 131072)}
		r.login("guest", amqp.ConnectionTuneOk{})
		r.call(1, &amqp.ChannelOpen{}, "channel.open-ok")
	}
	greet(0)
	before := memory()
	for i := 1; i < n; i++ {
		greet(i)
	}
	deadline := time.Now().Add(5 * time.Second)
	for lent := true; lent && time.Now().Before(deadline); { // buffers go back when a connection has been idle for a moment
		lent = false
		for _, c := range b.connections() {
			lent = lent || c.lent.Load()
		}
		runtime.Gosched()
	}
	perConnection := (memory() - before) / (n - 1)
	t.Logf("%d bytes per idle connection", perConnection)
	if perConnection > 15<<10 {
		t.Errorf("%d bytes per idle connection", perConnection)
	}
	for _, nc := range clients {
		_ = nc.Close()
	}
}

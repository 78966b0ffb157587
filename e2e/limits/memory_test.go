package limits

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

// anonymousBytes is the memory of a process that is not that of files.
func anonymousBytes(pid int) (int64, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no RssAnon in %s", status)
}

// watchMemory looks at a broker's memory until the returned function is called, which tells the most that it saw.
func watchMemory(b *harness.Broker) (most func() int64) {
	var peak int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			if n, err := anonymousBytes(b.Pid()); err == nil {
				peak = max(peak, n)
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-stopped
		return peak
	}
}

// stampedBody is a body of so many bytes that tells what it is and whether it is whole.
func stampedBody(number uint32, bytes int) []byte {
	body := make([]byte, bytes)
	binary.BigEndian.PutUint32(body, number)
	for i := 8; i < len(body); i++ {
		body[i] = byte(number) + byte(i)
	}
	binary.BigEndian.PutUint32(body[4:], crc32.ChecksumIEEE(body[8:]))
	return body
}

// TestMemoryIsBounded: many publishers of large messages that nobody takes, then many consumers that do not read, are held back before the broker takes more than it may; nothing is lost, and it goes on.
func TestMemoryIsBounded(t *testing.T) {
	const (
		limit              = 384 << 20
		queues, publishers = 10, 100
		each, size         = 45, 100 << 10
		consumers          = 200
	)
	b := harness.Start(t, harness.Options{Args: []string{"--set", fmt.Sprintf("total_memory_available_override_value=%d", limit)}})
	for i := range queues {
		b.FreshQueue(t, fmt.Sprint("q", i), harness.Classic)
	}
	within := func(what string, most func() int64) {
		peak := most()
		t.Logf("%s: at most %d MiB", what, peak>>20)
		if peak > limit {
			t.Errorf("%s: the broker took %d MiB, %d are allowed", what, peak>>20, limit>>20)
		}
	}

	most := watchMemory(b)
	var all sync.WaitGroup
	for p := range publishers {
		all.Go(func() {
			if err := publishAll(b, fmt.Sprint("q", p%queues), uint32(p*each), each, size); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	within("publishers without a consumer", most)

	most = watchMemory(b)
	var slow []*rawamqp.Conn
	for i := range consumers {
		c, err := rawamqp.Open(b.AMQP, rawamqp.Guest)
		if err == nil {
			err = c.OpenChannel(1)
		}
		if err == nil {
			err = c.Send(rawamqp.Method(60, 20).Short(0).ShortString(fmt.Sprint("q", i%queues)).ShortString("").Octet(0).LongString("").Frame(1))
		}
		if err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	time.Sleep(5 * time.Second)
	within("consumers that do not read", most)
	for _, c := range slow {
		c.Close()
	}

	most = watchMemory(b)
	drainAll(t, b, queues, publishers*each)
	within("a drain", most)
	b.FreshQueue(t, "after", harness.Classic)
	harness.PublishConfirmed(t, b.Channel(t), "", "after", []byte("x"))
}

// publishAll publishes messages without waiting for confirms, and those again that are nacked.
func publishAll(b *harness.Broker, queue string, first uint32, n, size int) error {
	conn, err := amqp.DialConfig(b.AMQPURL(), amqp.Config{Heartbeat: time.Minute})
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		return err
	}
	left := make([]uint32, n)
	for i := range left {
		left[i] = first + uint32(i)
	}
	for len(left) > 0 {
		confirms := make([]*amqp.DeferredConfirmation, len(left))
		for i, number := range left {
			if confirms[i], err = ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: stampedBody(number, size), DeliveryMode: amqp.Persistent}); err != nil {
				return err
			}
		}
		var again []uint32
		for i, c := range confirms {
			select {
			case <-c.Done():
			case <-time.After(time.Minute):
				return fmt.Errorf("no answer to message %d", left[i])
			}
			if !c.Acked() {
				again = append(again, left[i])
			}
		}
		left = again
	}
	return nil
}

// drainAll takes all messages of the queues q0, q1... and wants every number below n at least once.
func drainAll(t *testing.T, b *harness.Broker, queues, n int) {
	t.Helper()
	var seen sync.Map
	var count atomic.Int64
	done := make(chan struct{})
	for i := range queues {
		ch := b.Channel(t)
		if err := ch.Qos(20, 0, false); err != nil {
			t.Fatal(err)
		}
		deliveries, err := ch.Consume(fmt.Sprint("q", i), "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for d := range deliveries {
				if len(d.Body) < 8 || crc32.ChecksumIEEE(d.Body[8:]) != binary.BigEndian.Uint32(d.Body[4:]) {
					t.Errorf("a damaged body of %d bytes", len(d.Body))
				}
				if _, again := seen.LoadOrStore(binary.BigEndian.Uint32(d.Body), true); !again && count.Add(1) == int64(n) {
					close(done)
				}
				_ = d.Ack(false)
			}
		}()
	}
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%d of %d messages came", count.Load(), n)
	}
}

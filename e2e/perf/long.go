package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
	"github.com/warrenmq/warren/e2e/harness/rawamqp"
)

const (
	longQueue = "perf-long"
	// longWindow is how many publishes may be unconfirmed, longPrefetch how many deliveries unacknowledged; every longAck deliveries are acknowledged together.
	longWindow, longPrefetch, longAck = 4096, 2000, 500
	// longBuffer is how much is read at once, in bytes.
	longBuffer = 256 << 10
	// longRun is how many publishes go out in one write.
	longRun = 64
	// longPatience is how long the broker may send nothing.
	longPatience = 2 * time.Minute
)

// long fills one durable queue with many small messages, restarts the broker and drains the queue: what a backlog costs in memory and in speed.
func long(args []string) error {
	flags := flag.NewFlagSet("long", flag.ExitOnError)
	count := flags.Int("n", 10_000_000, "messages")
	size := flags.Int("size", 100, "bytes of a message")
	memory := flags.String("memory", "512MiB", "what the broker may take, as if that were the limit of its container")
	parts := flags.Int("parts", 10, "how many parts of the way to show")
	drain := flags.Int("drain", 0, "how many messages to drain (0: all)")
	dir := flags.String("dir", "", "directory for the broker's files; a new temporary one if empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	opts := harness.Options{Dir: *dir, Args: []string{"--set", "total_memory_available_override_value=" + *memory}}
	b, end, err := prepare(opts)
	if err != nil {
		return err
	}
	defer end()
	l := longTest{b: b, body: strings.Repeat("x", *size), parts: *parts}
	go l.watch()
	if *drain == 0 {
		*drain = *count
	}
	if err := l.run(*count, *drain); err != nil {
		return fmt.Errorf("%w\n%s", err, b.LogTail())
	}
	return nil
}

type longTest struct {
	b     *harness.Broker
	body  string
	parts int
	peak  atomic.Int64 // the most anonymous memory that was seen, in KiB
}

// watch looks at the broker's memory until the process ends.
func (l *longTest) watch() {
	for ; ; time.Sleep(10 * time.Millisecond) {
		l.peak.Store(max(l.peak.Load(), int64(l.status()["RssAnon"])))
	}
}

// status is what the kernel says of the broker's memory, in KiB; nothing while it does not run.
func (l *longTest) status() map[string]int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(l.b.Pid()) + "/status")
	if err != nil {
		return nil
	}
	values := make(map[string]int)
	for line := range strings.Lines(string(status)) {
		if key, rest, ok := strings.Cut(line, ":"); ok && strings.HasSuffix(rest, " kB\n") {
			values[key], _ = strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(rest, " kB\n")))
		}
	}
	return values
}

func (l *longTest) run(count, drain int) error {
	if err := l.start(); err != nil {
		return err
	}
	c, err := l.open()
	if err != nil {
		return err
	}
	declare := rawamqp.Method(50, 10).Short(0).ShortString(longQueue).Octet(2).LongString("").Frame(1)
	if _, err := c.Call(declare, 50, 11); err != nil {
		return err
	}
	c.Close()
	part := count / l.parts
	short, steady, err := l.short(part)
	if err != nil {
		return err
	}
	for i := range l.parts {
		d, err := l.publish(part)
		if err != nil {
			return err
		}
		fmt.Printf("%9d publish %s  %.2f of short  %s\n", (i+1)*part, rate(part, d), short.Seconds()/d.Seconds(), l.memory())
	}
	if err := l.restart(); err != nil {
		return err
	}
	for left := drain; left >= part; left -= part {
		many := part
		if left-part < part && drain == count {
			many-- // restart took one
		}
		d, err := l.consume(many, nil)
		if err != nil {
			return err
		}
		fmt.Printf("%9d drain   %s  %.2f of steady  %s\n", left, rate(part, d), steady.Seconds()/d.Seconds(), l.memory())
	}
	return nil
}

// short measures n messages of a queue that stays short: published in rounds that are purged, and published and consumed at once.
func (l *longTest) short(n int) (publish, steady time.Duration, err error) {
	const rounds = 4
	for range rounds {
		d, err := l.publish(n / rounds)
		if err != nil {
			return 0, 0, err
		}
		publish += d
		if err := l.purge(); err != nil {
			return 0, 0, err
		}
	}
	failed := make(chan error, 1)
	go func() {
		_, err := l.publish(n)
		failed <- err
	}()
	if steady, err = l.consume(n, nil); err == nil {
		err = <-failed
	}
	fmt.Printf("short   publish %s  publish and consume %s  %s\n", rate(n, publish), rate(n, steady), l.memory())
	return publish, steady, err
}

func (l *longTest) purge() error {
	c, err := l.open()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Call(rawamqp.Method(50, 30).Short(0).ShortString(longQueue).Octet(0).Frame(1), 50, 31)
	return err
}

func rate(n int, d time.Duration) string {
	return fmt.Sprintf("%7.0f/s", float64(n)/d.Seconds())
}

func (l *longTest) start() error {
	if err := l.b.Exec(); err != nil {
		return err
	}
	return l.b.AwaitAMQP(startTimeout)
}

// restart kills the broker and measures the time to the first delivery.
func (l *longTest) restart() error {
	l.b.Kill9()
	began := time.Now()
	if err := l.start(); err != nil {
		return err
	}
	ready := time.Since(began)
	var first time.Duration
	if _, err := l.consume(1, func() { first = time.Since(began) }); err != nil {
		return err
	}
	fmt.Printf("restart listens after %v, first delivery after %v  %s\n", ready.Round(time.Millisecond), first.Round(time.Millisecond), l.memory())
	return nil
}

func (l *longTest) open() (*rawamqp.Conn, error) {
	c, err := rawamqp.Open(l.b.AMQP, rawamqp.Guest)
	if err != nil {
		return nil, err
	}
	return c, c.OpenChannel(1)
}

// publish publishes n persistent messages with confirms.
func (l *longTest) publish(n int) (time.Duration, error) {
	c, err := l.open()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if _, err := c.Call(rawamqp.Method(85, 10).Octet(0).Frame(1), 85, 11); err != nil {
		return 0, err
	}
	header := rawamqp.Frame{Type: rawamqp.TypeHeader, Channel: 1}
	header.Payload = binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, uint64(len(l.body)))
	header.Payload = append(header.Payload, 0x10, 0, 2) // delivery mode 2
	one := rawamqp.Publish(1, longQueue).Append(nil)
	one = header.Append(one)
	one = rawamqp.Frame{Type: rawamqp.TypeBody, Channel: 1, Payload: []byte(l.body)}.Append(one)
	run := []byte(strings.Repeat(string(one), longRun))
	var confirmed atomic.Int64
	moved, failed := make(chan struct{}, 1), make(chan error, 1)
	began := time.Now()
	go func() {
		failed <- readFrames(c, bufio.NewReaderSize(c.Conn, longBuffer), func(class, method uint16, args []byte) bool {
			if class == 60 && method == 80 {
				confirmed.Store(int64(binary.BigEndian.Uint64(args)))
				select {
				case moved <- struct{}{}:
				default:
				}
			}
			return confirmed.Load() < int64(n)
		})
	}()
	for sent := 0; sent < n; {
		if int64(sent)-confirmed.Load() > longWindow {
			select {
			case <-moved:
			case err := <-failed:
				return 0, err
			}
			continue
		}
		many := min(longRun, n-sent)
		if _, err := c.Write(run[:many*len(one)]); err != nil {
			return 0, err
		}
		sent += many
	}
	if err := <-failed; err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// consume takes n messages and acknowledges them; it calls first at the first of them. The time counts from that one on.
func (l *longTest) consume(n int, first func()) (time.Duration, error) {
	c, err := l.open()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if _, err := c.Call(rawamqp.Method(60, 10).Long(0).Short(longPrefetch).Octet(0).Frame(1), 60, 11); err != nil {
		return 0, err
	}
	consume := rawamqp.Method(60, 20).Short(0).ShortString(longQueue).ShortString("c").Octet(0).LongString("").Frame(1)
	if err := c.Send(consume); err != nil {
		return 0, err
	}
	var began time.Time
	got, r := 0, bufio.NewReaderSize(c.Conn, longBuffer)
	err = readFrames(c, r, func(class, method uint16, args []byte) bool {
		if class != 60 || method != 60 {
			return true
		}
		if got++; got == 1 {
			began = time.Now()
			if first != nil {
				first()
			}
		}
		if got%longAck == 0 || got == n {
			tag := binary.BigEndian.Uint64(args[1+len("c"):])
			if err := c.Send(rawamqp.Method(60, 80).LongLong(tag).Octet(1).Frame(1)); err != nil {
				return false
			}
		}
		return got < n
	})
	if err != nil {
		return 0, err
	}
	d := time.Since(began)
	// What was delivered beyond n goes back before the next consumer comes.
	if err := c.Send(rawamqp.Method(20, 40).Short(200).ShortString("").Short(0).Short(0).Frame(1)); err != nil {
		return 0, err
	}
	return d, readFrames(c, r, func(class, method uint16, _ []byte) bool { return class != 20 || method != 41 })
}

// readFrames reads frames until visit, which sees the methods, says that it is enough.
func readFrames(c *rawamqp.Conn, r *bufio.Reader, visit func(class, method uint16, args []byte) bool) error {
	buf := make([]byte, 0, 4096)
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := c.SetDeadline(time.Now().Add(longPatience)); err != nil { // also of writes beside this
				return err
			}
		}
		head, err := r.Peek(7)
		if err != nil {
			return err
		}
		size, kind := int(binary.BigEndian.Uint32(head[3:])), head[0]
		if cap(buf) < size+8 {
			buf = make([]byte, size+8)
		}
		buf = buf[:size+8]
		if _, err := io.ReadFull(r, buf); err != nil {
			return err
		}
		if kind == rawamqp.TypeMethod && !visit(binary.BigEndian.Uint16(buf[7:]), binary.BigEndian.Uint16(buf[9:]), buf[11:]) {
			return nil
		}
	}
}

// memory tells what the broker takes, and the most that it took since it was asked last.
func (l *longTest) memory() string {
	now := l.status()
	return fmt.Sprintf("RssAnon %d MiB, at most %d MiB; VmHWM %d MiB", now["RssAnon"]>>10, l.peak.Swap(0)>>10, now["VmHWM"]>>10)
}

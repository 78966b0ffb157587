package queue

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/warrenmq/warren/internal/machine"
)

// benchBatch is how many messages a batch of the benchmarks has.
const benchBatch = 100

// load is a prepared queue: a pipeline that publishes, another that consumes.
type load struct {
	m                  *Machine
	publisher, worker  PipelineID
	publish, settle    Batch
	enqueues, settling []byte
	k, j, d            uint64
	effects            []Effect
	now                int64 // milliseconds
}

func newLoad(b *testing.B, priorities int) *load {
	l := &load{
		m:         New(Config{Version: 1, PriorityMax: uint8(priorities - 1)}),
		publisher: PipelineID{Node: 1, Boot: Boot{Counter: 1, Nonce: 1}, Gen: 1},
		worker:    PipelineID{Node: 2, Boot: Boot{Counter: 1, Nonce: 1}, Gen: 1},
	}
	for i := range benchBatch {
		c := Command{Op: OpEnqueue, Session: 1, BodyBytes: 1024, Flags: FlagPersistent | FlagHasPriority, Priority: uint8(i % priorities), Envelope: make([]byte, 1100)}
		l.enqueues = AppendCommand(l.enqueues, &c)
	}
	return l
}

func (l *load) enqueue(b *testing.B) {
	l.k++
	l.publish = Batch{Pipeline: l.publisher, K: l.k, Count: benchBatch, Commands: l.enqueues}
	var r Result
	if r, l.effects = l.m.ApplyBatch(machine.Stamp{NowMillis: l.now}, &l.publish, l.effects[:0]); r.Verdict != VerdictApplied {
		b.Fatal(r)
	}
}

func (l *load) apply(b *testing.B, commands ...Command) {
	l.j++
	l.settling = l.settling[:0]
	for i := range commands {
		l.settling = AppendCommand(l.settling, &commands[i])
	}
	l.settle = Batch{Pipeline: l.worker, K: l.j, Count: len(commands), Commands: l.settling}
	var r Result
	if r, l.effects = l.m.ApplyBatch(machine.Stamp{NowMillis: l.now}, &l.settle, l.effects[:0]); r.Verdict != VerdictApplied {
		b.Fatal(r)
	}
}

func (l *load) subscribe(b *testing.B, prefetch uint32) {
	l.apply(b, Command{Op: OpSubscribe, Session: 1, Consumer: 1, Prefetch: prefetch, WindowBytes: 1 << 30, WindowCount: WindowCountMax})
}

// ack acknowledges the next batch of deliveries as one range.
func (l *load) ack(b *testing.B) {
	commands := [...]Command{
		{Op: OpDrained, Session: 1, To: l.d + benchBatch},
		{Op: OpSettle, Session: 1, From: l.d + 1, To: l.d + benchBatch, Outcome: OutcomeAck},
	}
	l.apply(b, commands[:]...)
	l.d += benchBatch
}

// perMessage reports the time of one message: on the clock, and of the processor, which a busy machine disturbs less.
func perMessage(b *testing.B) func() {
	before := processorNanos(b)
	return func() {
		n := float64(b.N * benchBatch)
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/msg")
		b.ReportMetric(float64(processorNanos(b)-before)/n, "cpu-ns/msg")
	}
}

func processorNanos(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkPublishDeliverSettle moves batches through a queue with a waiting consumer: each message is stored, assigned and settled.
func BenchmarkPublishDeliverSettle(b *testing.B) {
	for _, priorities := range []int{1, 10} {
		for _, backlog := range []int{0, 1_000_000} {
			b.Run(fmt.Sprintf("priorities=%d/backlog=%d", priorities, backlog), func(b *testing.B) {
				l := newLoad(b, priorities)
				for range backlog / benchBatch {
					l.enqueue(b)
				}
				l.subscribe(b, benchBatch)
				b.ReportAllocs()
				defer perMessage(b)()
				for b.Loop() {
					l.enqueue(b)
					l.ack(b)
				}
			})
		}
	}
}

// BenchmarkSettleOneByOne acknowledges each message by a command of its own.
func BenchmarkSettleOneByOne(b *testing.B) {
	l := newLoad(b, 1)
	l.subscribe(b, benchBatch)
	commands := make([]Command, benchBatch)
	b.ReportAllocs()
	defer perMessage(b)()
	for b.Loop() {
		l.enqueue(b)
		for i := range commands {
			l.d++
			commands[i] = Command{Op: OpSettle, Session: 1, From: l.d, To: l.d, Outcome: OutcomeAck}
		}
		l.apply(b, commands...)
	}
}

// BenchmarkReturn returns every message once before it is acknowledged.
func BenchmarkReturn(b *testing.B) {
	l := newLoad(b, 1)
	l.subscribe(b, benchBatch)
	b.ReportAllocs()
	defer perMessage(b)()
	for b.Loop() {
		l.enqueue(b)
		l.apply(b, Command{Op: OpSettle, Session: 1, From: l.d + 1, To: l.d + benchBatch, Outcome: OutcomeReturn})
		l.d += benchBatch
		l.ack(b)
	}
}

// BenchmarkPurge drops a backlog of a million; the time is for the whole.
func BenchmarkPurge(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		l := newLoad(b, 1)
		for range 10_000 {
			l.enqueue(b)
		}
		b.StartTimer()
		l.apply(b, Command{Op: OpPurge})
	}
}

// BenchmarkSessionClose ends a session that holds a million unsettled messages; the time is for the first entry, which returns 4096 of them.
func BenchmarkSessionClose(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		l := newLoad(b, 1)
		l.subscribe(b, 0)
		for range 10_000 {
			l.enqueue(b)
			l.d += benchBatch
			l.apply(b, Command{Op: OpDrained, Session: 1, To: l.d})
		}
		b.StartTimer()
		l.apply(b, Command{Op: OpSessionClose, Session: 1, To: l.d})
	}
}

func millionReady(b *testing.B) *load {
	l := newLoad(b, 1)
	for range 10_000 {
		l.enqueue(b)
	}
	return l
}

// BenchmarkSnapshot writes a million ready messages.
func BenchmarkSnapshot(b *testing.B) {
	m := millionReady(b).m
	dst := m.AppendSnapshot(nil)
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		dst = m.AppendSnapshot(dst[:0])
	}
}

// BenchmarkRestore reads a million ready messages.
func BenchmarkRestore(b *testing.B) {
	src := millionReady(b).m.AppendSnapshot(nil)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		if _, err := Restore(src); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLive walks a million ready messages.
func BenchmarkLive(b *testing.B) {
	m := millionReady(b).m
	for b.Loop() {
		n := 0
		for range m.Live {
			n++
		}
		if n != 1_000_000 {
			b.Fatal(n)
		}
	}
}

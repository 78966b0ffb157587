package queue

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/machine"
)

// kind is a way in which a message may cost more than a plain one. describe makes the command of the n-th message. fresh says that each differs from those before; waits, that it becomes ready later.
type kind struct {
	name         string
	cfg          Config
	describe     func(c *Command, n uint64)
	fresh, waits bool
}

var kinds = []kind{
	{name: "plain", describe: func(*Command, uint64) {}},
	{name: "priorities=10", cfg: Config{PriorityMax: 9}, describe: withPriority},
	{name: "priorities=256", cfg: Config{PriorityMax: 255}, describe: withPriority},
	{name: "aging", cfg: Config{PriorityMax: 9, PriorityAging: LimitOf(1000)}, describe: withPriority},
	{name: "queue-ttl", cfg: Config{MessageTTL: LimitOf(tenYears)}, describe: func(*Command, uint64) {}},
	{name: "expiration", describe: withExpiration},
	{name: "max-length", cfg: Config{MaxLength: LimitOf(1 << 40), DeadLetter: true}, describe: func(*Command, uint64) {}},
	{name: "dedup", cfg: Config{Deduplicate: true}, describe: withID, fresh: true},
	{name: "dedup-window", cfg: Config{Deduplicate: true, DedupTTL: LimitOf(tenYears)}, describe: withID, fresh: true},
	{name: "delayed", describe: func(c *Command, _ uint64) { c.Flags, c.Delay = c.Flags|FlagDelay, 1 }, waits: true},
}

func withPriority(c *Command, n uint64) {
	c.Flags, c.Priority = c.Flags|FlagHasPriority, uint8(n*167)
}

func withExpiration(c *Command, n uint64) {
	c.Flags, c.Expiration = c.Flags|FlagHasExpiration, tenYears+scatter(n)%tenYears
}

func withID(c *Command, n uint64) {
	c.Flags, c.ID = c.Flags|FlagDedup, DedupID{High: scatter(n), Low: n}
}

// tenYears is a time in milliseconds that no benchmark reaches.
const tenYears = 10 * 365 * 24 * 3600 * 1000

// scatter is a number that looks random, the same for the same n.
func scatter(n uint64) uint64 {
	n = (n ^ n>>31) * 0x9e3779b97f4a7c15
	return n ^ n>>29
}

// kindLoad is a load whose messages differ.
type kindLoad struct {
	load
	describe func(c *Command, n uint64)
	n        uint64
}

func newKindLoad(cfg Config, describe func(c *Command, n uint64)) *kindLoad {
	cfg.Version = 1
	return &kindLoad{
		load: load{
			m: New(cfg), publisher: PipelineID{Node: 1, Boot: Boot{Counter: 1, Nonce: 1}, Gen: 1}, worker: PipelineID{Node: 2, Boot: Boot{Counter: 1, Nonce: 1}, Gen: 1},
		},
		describe: describe,
	}
}

// next encodes the next batch of messages.
func (l *kindLoad) next() {
	envelope := [100]byte{}
	l.enqueues = l.enqueues[:0]
	for range benchBatch {
		c := Command{Op: OpEnqueue, Session: 1, BodyBytes: 1024, Flags: FlagPersistent, Envelope: envelope[:]}
		l.describe(&c, l.n)
		l.n++
		l.enqueues = AppendCommand(l.enqueues, &c)
	}
}

// BenchmarkKinds moves batches through a queue of every kind behind a backlog of every size: stored, assigned, settled. It must grow no faster than the logarithm of the backlog.
func BenchmarkKinds(b *testing.B) {
	for i := range kinds {
		kind := &kinds[i]
		for _, backlog := range []int{1_000, 10_000, 100_000, 1_000_000, 10_000_000} {
			b.Run(fmt.Sprintf("%s/backlog=%d", kind.name, backlog), func(b *testing.B) {
				kind.bench(b, backlog)
			})
		}
	}
}

func (k *kind) bench(b *testing.B, backlog int) {
	l := newKindLoad(k.cfg, k.describe)
	if k.waits { // the backlog waits far longer
		l.describe = func(c *Command, n uint64) { c.Flags, c.Delay = c.Flags|FlagDelay, tenYears+scatter(n)%tenYears }
	}
	for range backlog / benchBatch {
		l.next()
		l.enqueue(b)
	}
	l.describe = k.describe
	l.subscribe(b, benchBatch)
	l.next()
	b.ReportAllocs()
	defer perMessage(b)()
	for b.Loop() {
		if k.fresh {
			l.next()
		}
		l.enqueue(b)
		if k.waits {
			l.now += 2
			_, l.effects = l.m.Apply(machine.Stamp{NowMillis: l.now}, &Command{Op: OpTick}, l.effects[:0])
		}
		l.ack(b)
	}
}

// threadNanos is the processor's time of this thread, which other work on the machine does not lengthen; the collector's helpers are not in it.
func threadNanos(b *testing.B) int64 {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// longest applies entries and keeps the longest time of the processor that one took, and the sum.
type longest struct {
	*kindLoad
	millis, sum float64
	entries     int
}

func (l *longest) time(b *testing.B, apply func()) {
	before := threadNanos(b)
	apply()
	took := float64(threadNanos(b)-before) / 1e6
	l.millis, l.sum = max(l.millis, took), l.sum+took
	l.entries++
}

// finish applies ticks until no work is left.
func (l *longest) finish(b *testing.B, nowMillis int64) {
	for due, ok := l.m.NextDeadline(); ok && due <= nowMillis; due, ok = l.m.NextDeadline() {
		l.time(b, func() {
			_, l.effects = l.m.Apply(machine.Stamp{NowMillis: nowMillis}, &Command{Op: OpTick}, l.effects[:0])
		})
	}
}

const million, hour = 1_000_000, 3_600_000

// longCase is something that concerns every message of a queue.
type longCase struct {
	name  string
	cfg   Config
	setUp func(*testing.B, *longest)
	run   func(*testing.B, *longest)
}

// expireAnywhere adds a million messages that expire in no order, alike in nothing.
func expireAnywhere(b *testing.B, l *longest) {
	l.n = 0
	l.describe = func(c *Command, n uint64) {
		c.Flags, c.Expiration, c.BodyBytes = c.Flags|FlagHasExpiration, 1+scatter(n)%hour, uint32(scatter(n)>>40)
	}
	for range million / benchBatch {
		l.next()
		l.enqueue(b)
	}
}

// stageLong stages the longest transaction.
func stageLong(b *testing.B, l *longest) {
	for range limits.TxCommandsMax / benchBatch {
		list := make([]Command, benchBatch)
		for i := range list {
			list[i] = Command{Op: OpTxEnqueue, Session: 1, Tx: 1, BodyBytes: 100, Flags: FlagPersistent, Priority: uint8(i)}
		}
		l.apply(b, list...)
	}
}

func longCases() []longCase {
	hold := func(b *testing.B, l *longest) {
		l.subscribe(b, 0)
		for l.m.ready.sums.n > 0 || l.d < million {
			l.d = l.m.pipelines[1].sessions[0].lastD
			l.apply(b, Command{Op: OpDrained, Session: 1, To: l.d})
		}
	}
	return []longCase{
		{"purge", Config{}, nil, func(b *testing.B, l *longest) { l.time(b, func() { l.apply(b, Command{Op: OpPurge}) }) }},
		{"expire", Config{MessageTTL: LimitOf(hour)}, nil, func(b *testing.B, l *longest) { l.finish(b, 2*hour) }},
		{"expire into the outbox", Config{MessageTTL: LimitOf(hour), DeadLetter: true}, nil, func(b *testing.B, l *longest) { l.finish(b, 2*hour) }},
		{"expire here and there", Config{}, expireAnywhere, func(b *testing.B, l *longest) { l.finish(b, 2*hour) }},
		{"shrink", Config{}, nil, func(b *testing.B, l *longest) {
			l.time(b, func() {
				l.m.Apply(machine.Stamp{}, &Command{Op: OpConfigure, Config: Config{Version: 2, MaxLength: LimitOf(1)}}, nil)
			})
			l.finish(b, 1)
		}},
		{"deliver", Config{}, nil, func(b *testing.B, l *longest) {
			l.time(b, func() { l.subscribe(b, 0) })
			for l.d < million {
				l.d = l.m.pipelines[1].sessions[0].lastD
				l.time(b, func() { l.apply(b, Command{Op: OpDrained, Session: 1, To: l.d}) })
			}
		}},
		{"close", Config{}, hold, func(b *testing.B, l *longest) {
			l.time(b, func() { l.apply(b, Command{Op: OpSessionClose, Session: 1, To: l.d}) })
			l.finish(b, 1)
		}},
		{"node gone", Config{}, hold, func(b *testing.B, l *longest) {
			l.time(b, func() { l.m.Apply(machine.Stamp{}, &Command{Op: OpNodeGone, Node: 2, Boot: Boot{Counter: 1}}, nil) })
			l.finish(b, 1)
		}},
		{"commit a transaction", Config{}, stageLong, func(b *testing.B, l *longest) {
			l.time(b, func() {
				l.apply(b, Command{Op: OpTxCommit, Session: 1, Tx: 1, To: limits.TxCommandsMax / benchBatch * benchBatch})
			})
			if l.m.ready.sums.n < million+limits.TxCommandsMax-benchBatch {
				b.Fatal(l.m.ready.sums.n)
			}
		}},
		{"move from every page", Config{}, nil, func(b *testing.B, l *longest) {
			var seqs []Seq
			for seq := Seq(1); seq < million; seq += million / MoveMax {
				seqs = append(seqs, seq)
			}
			c := Command{Op: OpMove, Peer: 7, Reason: ReasonMoved, Envelope: AppendSeqs(nil, seqs[:MoveMax])}
			l.time(b, func() { l.apply(b, c) })
			if l.m.outbox.sums.n != MoveMax {
				b.Fatal(l.m.outbox.sums.n)
			}
		}},
		{"return all delayed", Config{Retry: RetryAll, RetryMin: LimitOf(hour)}, hold, func(b *testing.B, l *longest) {
			for from := uint64(1); from <= l.d; from += 4096 {
				l.time(b, func() {
					l.apply(b, Command{Op: OpSettle, Session: 1, From: from, To: min(from+4095, l.d), Outcome: OutcomeReturnCounted})
				})
			}
			l.finish(b, 2*hour)
		}},
	}
}

// BenchmarkLongestApply has a queue of a million messages do what concerns all of them. Entries do bounded work, so that neither elections nor replay wait (PROTOCOL 7): the longest must stay under 20 ms.
func BenchmarkLongestApply(b *testing.B) {
	for _, c := range longCases() {
		b.Run(c.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			worst, entries, mean := 0.0, 0, 0.0
			for b.Loop() {
				b.StopTimer()
				l := &longest{kindLoad: newKindLoad(c.cfg, func(*Command, uint64) {})}
				l.next()
				for range million / benchBatch {
					l.enqueue(b)
				}
				if c.setUp != nil {
					c.setUp(b, l)
				}
				b.StartTimer()
				c.run(b, l)
				worst, entries, mean = max(worst, l.millis), l.entries, l.sum/float64(l.entries)
			}
			b.ReportMetric(mean, "mean-ms")
			b.ReportMetric(worst, "longest-ms")
			b.ReportMetric(float64(entries), "entries")
		})
	}
}

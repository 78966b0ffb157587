package queue

import (
	"encoding/hex"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/machine"
)

func sizeOf(v any) uintptr { return reflect.TypeOf(v).Size() }

// player plays script lines on a machine with its real limits.
type player struct {
	*runner
	t *testing.T
}

func newPlayer(t *testing.T) *player { return &player{&runner{m: New(Config{})}, t} }

// do plays lines; each must pass Check.
func (p *player) do(lines ...string) (answer string) {
	p.t.Helper()
	for _, l := range lines {
		answer = p.play(p.t, l)
		if err := p.m.Check(); err != nil {
			p.t.Fatalf("%s: %v", l, err)
		}
	}
	return answer
}

// enqueue adds n messages, as many to a batch as may be.
func (p *player) enqueue(n int) {
	c := Command{Op: OpEnqueue, BodyBytes: 100, Flags: FlagPersistent}
	s := step{pipeline: PipelineID{Node: 1, Boot: Boot{Counter: 1}, Gen: 1}}
	for ; n > 0; n -= len(s.commands) {
		s.commands = s.commands[:0]
		for range min(n, limits.BatchCommandsMax) {
			s.commands = append(s.commands, c)
		}
		if a, err := p.run(&s); err != nil || a.result.Verdict != VerdictApplied {
			p.t.Fatal(a.result, err)
		}
		p.entries = nil
	}
}

// TestWindowCountIsCapped: a consumer that asks for everything gets limits that keep one entry bounded.
func TestWindowCountIsCapped(t *testing.T) {
	p := newPlayer(t)
	p.enqueue(WindowCountMax + 1000)
	p.do("subscribe s1 c1 count=1000000 bytes=1000000000", "tick", "tick")
	if c := p.m.Counts(); c.Unacked != WindowCountMax || c.Ready != 1000 {
		t.Errorf("%d unacked, %d ready", c.Unacked, c.Ready)
	}
}

// TestRealBounds: the limits that the scripts make small are the protocol's in a real machine.
func TestRealBounds(t *testing.T) {
	p := newPlayer(t)
	p.enqueue(3*limits.ApplyWorkMax + 5)
	p.do("subscribe s1 c1 prefetch=0 count=4096")
	for p.m.Counts().Ready > 0 {
		p.play(t, "drained s1 to=1000000")
	}
	p.do("close s1")
	for i, want := range []uint64{limits.ApplyWorkMax, 2 * limits.ApplyWorkMax, 3 * limits.ApplyWorkMax, 3*limits.ApplyWorkMax + 5} {
		c := p.m.Counts()
		if _, due := p.m.NextDeadline(); c.Ready != want || c.Ready+c.Unacked != 3*limits.ApplyWorkMax+5 || due != (c.Unacked > 0) {
			t.Fatalf("after %d ticks: %d ready, %d unacked, due %t", i, c.Ready, c.Unacked, due)
		}
		p.do("tick")
	}
}

// TestDeadlineIsThePast: a leader that asks while work is left gets a time that has come.
func TestDeadlineIsThePast(t *testing.T) {
	p := newPlayer(t)
	if _, ok := p.m.NextDeadline(); ok {
		t.Error("an empty queue has a deadline")
	}
	p.do("bounds returns=1", "enqueue times=3", "subscribe s1 c1", "close s1")
	if millis, ok := p.m.NextDeadline(); !ok || millis > 1000*int64(p.index) {
		t.Errorf("deadline %d %t at %d", millis, ok, 1000*p.index)
	}
	// Time never goes back.
	seen := p.m.seenMillis
	p.m.Apply(machine.Stamp{NowMillis: 5}, &Command{Op: OpTick}, nil)
	if p.m.seenMillis != seen {
		t.Errorf("saw %d, now %d", seen, p.m.seenMillis)
	}
}

// TestEffectsBelongToOneEntry: effects of an entry before are never changed, even where a range could be made longer.
func TestEffectsBelongToOneEntry(t *testing.T) {
	p := newPlayer(t)
	p.do("enqueue times=4", "get s1; get s1; get s1; get s1")
	var out []Effect
	for d := uint64(1); d <= 4; d++ {
		s := step{pipeline: PipelineID{Node: 1, Boot: Boot{Counter: 1}, Gen: 1}, commands: []Command{{Op: OpSettle, Session: 1, From: d, To: d, Outcome: OutcomeAck}}}
		var e Entry
		if err := DecodeEntry(p.encode(&s), &e); err != nil {
			t.Fatal(err)
		}
		_, out = p.m.ApplyBatch(machine.Stamp{}, &e.Batch, out)
	}
	want := []Effect{{Kind: KindRelease, Seq: 1, To: 1}, {Kind: KindRelease, Seq: 2, To: 2}, {Kind: KindRelease, Seq: 3, To: 3}, {Kind: KindRelease, Seq: 4, To: 4}}
	if !reflect.DeepEqual(out, want) {
		t.Errorf("effects %v", out)
	}
}

// TestSyncSurvivesAnyMark: numbers of a confused node must not make the answer wrong.
func TestSyncSurvivesAnyMark(t *testing.T) {
	p := newPlayer(t)
	p.do("enqueue times=2", "get s1")
	st := p.m.Sync(PipelineID{Node: 1, Boot: Boot{Counter: 1}, Gen: 1}, 1<<64-1, []SessionMark{{Session: 1, LastD: 1<<64 - 1}})
	if len(st.Outcomes) != 0 || len(st.Sessions) != 1 || len(st.Sessions[0].Deliveries) != 0 || st.LastK != 2 {
		t.Errorf("%+v", st)
	}
}

// TestPipelines lists them in order, and LastK knows each.
func TestPipelines(t *testing.T) {
	p := newPlayer(t)
	if p.do("configure version=4 max=2"); p.m.Config() != (Config{Version: 4, PriorityMax: 2}) {
		t.Errorf("config %+v", p.m.Config())
	}
	p.do("enqueue at=3.1.0.1", "enqueue at=1.2.5.1", "enqueue at=1.2.5.2", "enqueue at=2.1.0.1", "enqueue at=2.1.0.1")
	want := []PipelineID{{1, Boot{2, 5}, 2}, {2, Boot{1, 0}, 1}, {3, Boot{1, 0}, 1}}
	got := p.m.Pipelines(make([]PipelineID, 1))[1:]
	if !reflect.DeepEqual(got, want) {
		t.Errorf("pipelines %v", got)
	}
	if k := p.m.LastK(want[1]); k != 2 {
		t.Errorf("last k %d", k)
	}
	if k := p.m.LastK(PipelineID{Node: 9}); k != 0 {
		t.Errorf("last k %d of an unknown one", k)
	}
}

// footprint measures what a queue with many messages takes.
type footprint struct {
	*player
	start uint64
}

const footprintMessages = 150_000

func heapBytes() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// per wants the queue to take at most limit bytes for each of its messages.
func (f *footprint) per(what string, limit uint64) {
	f.t.Helper()
	now := heapBytes()
	got := (now - min(f.start, now)) / footprintMessages
	f.t.Logf("%s: %d bytes a message", what, got)
	if got > limit {
		f.t.Errorf("%s: %d bytes a message, want at most %d", what, got, limit)
	}
}

// given wants the memory back after the messages went.
func (f *footprint) given(what string) {
	f.t.Helper()
	if got := int64(heapBytes()) - int64(f.start); got > 100<<10 {
		f.t.Errorf("%s: %d bytes are kept", what, got)
	}
	f.do("query")
}

// deliver lets consumers take everything.
func (f *footprint) deliver() {
	for f.m.Counts().Ready > 0 {
		f.play(f.t, "drained s1 to=100000000")
	}
	f.entries = nil
}

// settle ends everything that is out, the youngest first.
func (f *footprint) settle(outcome Outcome) {
	p := f.m.pipelines[0]
	to := p.sessions[0].lastD
	for f.m.Counts().Unacked > 0 {
		from := to - min(to-1, limits.SettleRangeMax-1)
		if _, err := f.run(&step{pipeline: p.id, commands: []Command{{Op: OpSettle, Session: 1, From: from, To: to, Outcome: outcome}}}); err != nil {
			f.t.Fatal(err)
		}
		to = from - 1
	}
	f.entries = nil
}

// TestMemory: a backlog costs little and its memory comes back, whichever way it goes.
func TestMemory(t *testing.T) {
	f := &footprint{player: newPlayer(t)}
	f.start = heapBytes()

	f.enqueue(footprintMessages)
	f.per("ready", 26)
	f.do("purge")
	f.given("purged")

	f.enqueue(footprintMessages)
	f.do("subscribe s1 c1 count=4096 bytes=1000000000")
	f.deliver()
	f.per("outstanding", 74)
	f.settle(OutcomeAck)
	f.given("acknowledged")

	f.enqueue(footprintMessages)
	f.deliver()
	f.do("cancel s1 c1")
	f.settle(OutcomeReturn)
	f.per("returned", 110)
	f.do("subscribe s1 c2 count=4096 bytes=1000000000")
	f.deliver()
	f.do("close s1")
	for f.m.Counts().Unacked > 0 {
		f.play(t, "tick")
	}
	f.do("subscribe s1 c1 count=4096 bytes=1000000000 noack")
	f.deliver()
	f.do("drained s1 to=100000000")
	f.entries = nil
	f.given("returned and delivered")
}

// TestSteadyStateAllocatesNothing: publish, deliver, settle.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	p := newPlayer(t)
	p.do("subscribe s1 c1 prefetch=100 bytes=1000000")
	id := p.m.pipelines[0].id
	b := Batch{Pipeline: id, Count: 102}
	var commands []byte
	for range 100 {
		commands = AppendCommand(commands, &Command{Op: OpEnqueue, BodyBytes: 10, Envelope: []byte("envelope")})
	}
	var out []Effect
	d := uint64(0)
	round := func() {
		b.K = p.m.LastK(id) + 1
		b.Commands = AppendCommand(commands[:len(commands):cap(commands)], &Command{Op: OpDrained, Session: 1, To: d + 100})
		b.Commands = AppendCommand(b.Commands, &Command{Op: OpSettle, Session: 1, From: d + 1, To: d + 100, Outcome: OutcomeAck})
		commands = b.Commands[:len(commands)]
		d += 100
		_, out = p.m.ApplyBatch(machine.Stamp{}, &b, out[:0])
	}
	for range 50 {
		round()
	}
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%v allocations in a batch of 100 messages", n)
	}
	if c := p.m.Counts(); c.Unacked != 0 || c.Acked != d {
		t.Errorf("the test moves nothing: %+v", c)
	}
}

// TestUnknownEffectHasText keeps logs readable when a kind is added.
func TestUnknownEffectHasText(t *testing.T) {
	if s := (Effect{Kind: 77}).String(); !strings.Contains(s, "77") {
		t.Error(s)
	}
	if s := (Effect{Kind: KindCancel, Node: 1, BootCounter: 2, Session: 3, Consumer: 4}).String(); s != "cancel n1.2/s3/c4" {
		t.Error(s)
	}
}

// TestSnapshotOfVersion4: in snapshots of version 4 what has an expiration of its own stands in a list of records; it is the same queue as that of testdata/snapshot_format.txt.
func TestSnapshotOfVersion4(t *testing.T) {
	read := func(text string) []byte {
		m, err := restore(unhex(t, text), standardBounds)
		if err == nil {
			err = m.Check()
		}
		if err != nil {
			t.Fatal(err)
		}
		return m.AppendSnapshot(nil)
	}
	const before = "04010900000000000000004a380800000000d08c010000070000010000000000000200000000020001090b01ac02e884010103000202ac0240d08902d8a70501ac024000d8a7050100010707c0d089020101e6848108000000000000000001010001010100000000000000000100030005000001040005000001000001010100000000000000000000000000"
	const now = "05010900000000000000004a380800000000d08c010000070000010000000000000200000000020001092b01ac02e8840101010c00000071110171110100000000000100010707c0d089020101e6848108000000000000000001010001010100000000000000000100030005000001040005000001000001010100000000000000000000000000"
	if got, want := read(before), read(now); string(got) != string(want) {
		t.Errorf("read from version 4:\n%x\nwant\n%x", got, want)
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

// modelGroup is what a group has, in the obvious form.
type modelGroup struct {
	bootstrap, state, snapshot string
	hasBoot, hasState, hasSnap bool
	snapshotIndex              uint64
	first                      uint64
	entries                    []string
}

// model is what a log has. It is a value: an operation gives a new one.
type model map[Group]modelGroup

// op is one record's worth of change.
type op func(modelGroup) modelGroup

func (m model) with(g Group, o op) model {
	after := model{}
	for k, v := range m {
		after[k] = v
	}
	mg := o(m[g])
	if !mg.hasBoot && !mg.hasState && !mg.hasSnap && len(mg.entries) == 0 {
		delete(after, g)
	} else {
		after[g] = mg
	}
	return after
}

func (g modelGroup) update(u Update) modelGroup {
	if u.State != nil {
		g.state, g.hasState = string(u.State), true
	}
	if u.Snapshot != nil && (!g.hasSnap || u.SnapshotIndex >= g.snapshotIndex) {
		g.snapshot, g.snapshotIndex, g.hasSnap = string(u.Snapshot), u.SnapshotIndex, true
		if u.Restored {
			g.entries = nil
		}
	}
	if len(u.Ends) == 0 {
		return g
	}
	if end := g.first + uint64(len(g.entries)); len(g.entries) == 0 || u.First <= g.first || u.First > end {
		g.first, g.entries = u.First, nil
	} else {
		g.entries = slices.Clone(g.entries[:u.First-g.first])
	}
	from := uint32(0)
	for _, end := range u.Ends {
		g.entries = append(g.entries, string(u.Entries[from:end]))
		from = end
	}
	return g
}

func (g modelGroup) truncate(index uint64) modelGroup {
	if n := uint64(len(g.entries)); n > 0 && index >= g.first {
		cut := min(n, index-g.first+1)
		g.first, g.entries = g.first+cut, slices.Clone(g.entries[cut:])
	}
	return g
}

// dump is the model as text, to be compared with that of a log.
func (m model) dump() string {
	var lines []string
	for id, g := range m {
		line := fmt.Sprintf("%v boot %v %q state %v %q snap %v %q", id, g.hasBoot, g.bootstrap, g.hasState, g.state, g.hasSnap, g.snapshot)
		if g.hasSnap {
			line += fmt.Sprint(" ", g.snapshotIndex)
		}
		for i, e := range g.entries {
			line += fmt.Sprintf(" %d=%d:%.4s:%x", g.first+uint64(i), len(e), e, crc32.ChecksumIEEE([]byte(e)))
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// dumpLog reads all of a log.
func dumpLog(l *Log) (string, error) {
	l.mu.Lock()
	var ids []Group
	for id := range l.groups {
		ids = append(ids, id)
	}
	l.mu.Unlock()
	m := model{}
	for _, id := range ids {
		var g modelGroup
		boot, ok := l.BootstrapOf(id)
		g.bootstrap, g.hasBoot = string(boot), ok
		state, ok := l.StateOf(id)
		g.state, g.hasState = string(state), ok
		snap, index, ok := l.SnapshotOf(id)
		g.snapshot, g.hasSnap, g.snapshotIndex = string(snap), ok, index
		if first, last, ok := l.Range(id); ok {
			g.first = first
			next := first
			err := l.Read(id, first, last+1, func(index uint64, data []byte) bool {
				if index != next {
					g.entries = append(g.entries, "out of order")
				}
				next++
				g.entries = append(g.entries, string(data))
				return true
			})
			if err != nil {
				return "", err
			}
			if next != last+1 {
				g.entries = append(g.entries, "too few")
			}
		}
		if g.hasBoot || g.hasState || g.hasSnap || len(g.entries) > 0 {
			m[id] = g
		}
	}
	return m.dump(), nil
}

// owner drives a log and knows what it must hold.
type owner struct {
	t     testing.TB
	fsys  *storagetest.Mem
	log   *Log
	b     bounds
	now   model   // what is seen
	maybe []model // what a crash may leave: the durable state and those after each record behind it
	asked map[Group]bool
	steps int
	// inFlight are the states after each record of a call that is being made.
	inFlight []model
}

func newOwner(t testing.TB, fsys *storagetest.Mem) *owner {
	o := &owner{t: t, fsys: fsys, now: model{}, maybe: []model{{}}, b: small, asked: map[Group]bool{}}
	o.must(o.open())
	return o
}

func (o *owner) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

func (o *owner) open() error {
	l, err := open(Options{FS: o.fsys, Dir: testDir, Incarnation: 3, NeedCheckpoint: func(g Group, _ uint64) { o.asked[g] = true }}, o.b)
	if err != nil {
		return err
	}
	o.log = l
	return nil
}

// reopen begins a new process, after a crash or a kill; what it finds must be one of the states that may be.
func (o *owner) reopen() {
	o.t.Helper()
	o.must(o.open())
	o.found()
}

// found takes the state that the log has for the present one, if it may be.
func (o *owner) found() {
	o.t.Helper()
	got, err := dumpLog(o.log)
	o.must(err)
	for _, m := range slices.Backward(o.maybe) {
		if m.dump() == got {
			o.now, o.maybe = m, []model{m}
			return
		}
	}
	o.t.Fatalf("step %d: the log holds\n%s\nand may hold\n%s\nto\n%s", o.steps, got, o.maybe[0].dump(), o.maybe[len(o.maybe)-1].dump())
}

// check compares what is seen.
func (o *owner) check() {
	o.t.Helper()
	got, err := dumpLog(o.log)
	o.must(err)
	if got != o.now.dump() {
		o.t.Fatalf("step %d: the log holds\n%s\nand should hold\n%s", o.steps, got, o.now.dump())
	}
}

// will notes a record of the call that is being made.
func (o *owner) will(g Group, f op) {
	o.now = o.now.with(g, f)
	o.maybe = append(o.maybe, o.now)
}

// done ends a durable call.
func (o *owner) done(err error) error {
	if err == nil {
		o.maybe = []model{o.now}
	}
	return err
}

func text(rng *rand.Rand, bytesMax int) []byte {
	b := make([]byte, rng.IntN(bytesMax+1))
	for i := range b {
		b[i] = 'a' + byte(rng.IntN(26))
	}
	return b
}

func (o *owner) randomUpdate(rng *rand.Rand) Update {
	g := Group{uint64(rng.IntN(6)), 1}
	if rng.IntN(2) == 0 {
		g.Shard = 0 // one is busier than the others
	}
	mg := o.now[g]
	u := Update{Group: g}
	end := mg.first + uint64(len(mg.entries))
	if len(mg.entries) == 0 {
		end = max(mg.snapshotIndex, mg.first) + 1
	}
	if rng.IntN(3) == 0 {
		u.State = text(rng, 20)
	}
	if rng.IntN(8) == 0 {
		u.Snapshot, u.SnapshotIndex, u.Restored = text(rng, 60), end+uint64(rng.IntN(8))-min(end, 4), rng.IntN(2) == 0
	}
	if rng.IntN(4) > 0 || u.State == nil && u.Snapshot == nil {
		u.First = end
		switch rng.IntN(10) {
		case 0:
			u.First = max(1, end-min(end, uint64(rng.IntN(12))))
		case 1:
			u.First = end + uint64(rng.IntN(3))
		}
		size := 40
		if rng.IntN(30) == 0 {
			size = 5000
		}
		for range 1 + rng.IntN(4) {
			u.Entries = append(u.Entries, text(rng, size)...)
			u.Ends = append(u.Ends, uint32(len(u.Entries)))
		}
	}
	return u
}

// step does one thing.
func (o *owner) step(rng *rand.Rand) error {
	o.steps++
	g := Group{uint64(rng.IntN(6)), 1}
	for id := range o.asked {
		g = id
	}
	if len(o.asked) > 0 {
		o.asked = map[Group]bool{}
		if mg := o.now[g]; len(mg.entries) > 0 {
			return o.truncate(g, mg.first+uint64(len(mg.entries))-1)
		}
	}
	switch rng.IntN(24) {
	case 0:
		boot := text(rng, 50)
		o.will(g, func(m modelGroup) modelGroup { m.bootstrap, m.hasBoot = string(boot), true; return m })
		return o.done(o.log.Bootstrap(g, boot))
	case 1:
		o.will(g, func(modelGroup) modelGroup { return modelGroup{} })
		return o.done(o.log.Remove(g))
	case 2:
		boot, state, snap := text(rng, 50), text(rng, 20), text(rng, 60)
		index := uint64(rng.IntN(50))
		o.will(g, func(modelGroup) modelGroup {
			return modelGroup{bootstrap: string(boot), state: string(state), snapshot: string(snap), hasBoot: true, hasState: true, hasSnap: true, snapshotIndex: index}
		})
		return o.done(o.log.Import(g, boot, state, snap, index))
	case 3, 4, 5, 6, 7:
		mg := o.now[g]
		return o.truncate(g, mg.first+uint64(rng.IntN(len(mg.entries)+2)))
	case 8, 9:
		o.log.tick()
		if rng.IntN(2) == 0 {
			o.log.tick()
		}
		o.log.mu.Lock()
		failed, written := o.log.failed, len(o.log.batch.parts) == 0
		o.log.mu.Unlock()
		if !written {
			return failed
		}
		return o.done(failed)
	case 10:
		o.log.tidy()
		return o.readSome(rng)
	case 11, 12:
		return o.readSome(rng)
	}
	var updates []Update
	for range 1 + rng.IntN(3) {
		u := o.randomUpdate(rng)
		updates = append(updates, u)
		o.will(u.Group, func(m modelGroup) modelGroup { return m.update(u) })
	}
	return o.done(o.log.Commit(updates))
}

// truncate is no durable call: the state before stays possible.
func (o *owner) truncate(g Group, index uint64) error {
	o.will(g, func(m modelGroup) modelGroup { return m.truncate(index) })
	return o.log.TruncateTo(g, index)
}

// readSome reads a random range and compares it.
func (o *owner) readSome(rng *rand.Rand) error {
	g := Group{uint64(rng.IntN(6)), 1}
	mg := o.now[g]
	low := mg.first + uint64(rng.IntN(len(mg.entries)+1))
	high := low + uint64(rng.IntN(6))
	most := 1 + rng.IntN(6)
	at := int(low - mg.first)
	wantN := min(int(high-low), max(0, len(mg.entries)-at), most)
	n := 0
	err := o.log.Read(g, low, high, func(index uint64, data []byte) bool {
		if at+n >= len(mg.entries) || index != low+uint64(n) || string(data) != mg.entries[at+n] {
			o.t.Fatalf("step %d: entry %d of %v is %q", o.steps, index, g, data)
		}
		n++
		return n < most
	})
	if err == nil && n != wantN {
		o.t.Fatalf("step %d: %d entries of %v from %d to %d, want %d", o.steps, n, g, low, high, wantN)
	}
	return err
}

// run does the same steps for the same seed until the log says that it is over.
func (o *owner) run(seed uint64, steps int) (fatal bool) {
	rng := rand.New(rand.NewPCG(seed, 7))
	for range steps {
		if err := o.step(rng); errors.Is(err, storage.ErrFatal) {
			return true
		}
	}
	return false
}

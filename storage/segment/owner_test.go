package segment

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

const testDir = "/data/queues/q1"

// small makes files roll and compact after a few records.
var small = limits{segmentBytesMax: 4 << 10, directBodyBytes: 600, compactActiveBytesMin: 1 << 10}

// body is what the machine would store under seq: the same whenever the log is replayed.
func body(seq uint64) []byte {
	rng := rand.New(rand.NewPCG(seq, 42))
	b := make([]byte, rng.IntN(64)*rng.IntN(16))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// owner does what quorum does with a store: it appends, releases, takes checkpoints, and after a crash goes on from the last durable checkpoint.
type owner struct {
	t     testing.TB
	fsys  *storagetest.Mem
	store *Store
	live  map[uint64]bool // the machine's state
	next  uint64

	durable     map[uint64]bool // the last durable checkpoint
	durableNext uint64
}

func newOwner(t testing.TB, fsys *storagetest.Mem) *owner {
	o := &owner{t: t, fsys: fsys, live: map[uint64]bool{}, next: 1, durable: map[uint64]bool{}, durableNext: 1}
	o.reopen()
	return o
}

// reopen starts a new process on what the file system holds, and checks that all of the durable checkpoint is there.
func (o *owner) reopen() {
	o.t.Helper()
	s, err := open(o.fsys, testDir, o.keep, small)
	if errors.Is(err, storagetest.ErrInjected) {
		s, err = open(o.fsys, testDir, o.keep, small)
	}
	if err != nil {
		o.t.Fatalf("open after %d durable records: %v", len(o.durable), err)
	}
	o.store = s
	o.live, o.next = maps.Clone(o.durable), o.durableNext
	o.check()
}

// keep says which records the durable checkpoint refers to.
func (o *owner) keep(page uint64) (live Mask) {
	for i := range uint64(PageSeqs) {
		if o.durable[page*PageSeqs+i] {
			live.set(i)
		}
	}
	return live
}

// check compares the whole store with the machine.
func (o *owner) check() {
	o.t.Helper()
	for seq := range o.live {
		got, err := o.store.Read(seq)
		if err != nil || !bytes.Equal(got, body(seq)) {
			o.t.Fatalf("record %d: %d bytes, %v; want %d bytes", seq, len(got), err, len(body(seq)))
		}
	}
	if n := o.store.Len(); n != len(o.live) {
		o.t.Fatalf("the store has %d records, the machine %d", n, len(o.live))
	}
	checkCounts(o.t, o.store)
}

// checkCounts compares the counts of the files with the index.
func checkCounts(t testing.TB, s *Store) {
	t.Helper()
	type count struct {
		records int
		bytes   int64
	}
	want := map[uint32]count{}
	for _, p := range s.index.pages {
		for i := range uint64(PageSeqs) {
			if !p.has.has(i) {
				continue
			}
			at, ok := s.index.get(p.no*PageSeqs + i)
			if !ok {
				t.Fatalf("record %d has no place", p.no*PageSeqs+i)
			}
			n := want[at.number]
			n.records++
			n.bytes += at.bytes()
			want[at.number] = n
		}
	}
	for _, seg := range s.segments {
		if got := (count{seg.records, seg.liveBytes}); got != want[seg.number] {
			t.Fatalf("file %d counts %+v, the index %+v", seg.number, got, want[seg.number])
		}
		delete(want, seg.number)
	}
	if len(want) > 0 {
		t.Fatalf("the index names files that are gone: %v", want)
	}
}

func (o *owner) append() error {
	err := o.store.Append(o.next, body(o.next))
	if err == nil {
		o.live[o.next] = true
		o.next++
	}
	return err
}

// release releases the live record that is the pick-th by number.
func (o *owner) release(pick int) {
	if len(o.live) == 0 {
		return
	}
	pick %= len(o.live)
	for seq := uint64(1); ; seq++ {
		if !o.live[seq] {
			continue
		}
		if pick == 0 {
			o.store.Release(seq, seq)
			delete(o.live, seq)
			return
		}
		pick--
	}
}

// checkpoint makes the present state durable and collects; between is what happens while it is written.
func (o *owner) checkpoint(between func()) error {
	cut, live, next := o.store.Cut(), maps.Clone(o.live), o.next
	if between != nil {
		between()
	}
	if err := o.store.Sync(); err != nil {
		return err
	}
	o.durable, o.durableNext = live, next
	return o.store.Collect(cut)
}

// step does one random thing and returns its error.
func (o *owner) step(rng *rand.Rand) error {
	switch n := rng.IntN(100); {
	case n < 55:
		return o.append()
	case n < 90:
		o.release(rng.IntN(3) * rng.IntN(40)) // mostly the oldest
	case n < 92:
		return o.store.Sync()
	default:
		return o.checkpoint(func() { o.release(0) })
	}
	return nil
}

// must fails the test on an error.
func (o *owner) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

func isCorrupt(err error) bool {
	var corrupt *storage.CorruptError
	return errors.As(err, &corrupt)
}

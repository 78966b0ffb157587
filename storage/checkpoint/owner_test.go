package checkpoint

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/storagetest"
)

const (
	testDir   = "/data/queues/q1"
	testShard = 77
)

// command is the log's entry at an index; of every ten indexes one belongs to the Raft library and has none.
func command(index uint64) []byte {
	rng := rand.New(rand.NewPCG(index, 1))
	b := make([]byte, rng.IntN(30)*rng.IntN(30))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func isCommand(index uint64) bool { return index%10 != 0 }

// snapshot is the state after an index.
func snapshot(index uint64) []byte {
	return bytes.Repeat([]byte{byte(index), byte(index >> 8), 1}, int(index%700))
}

// entries are the commands of (from, to].
func entries(from, to uint64) (list []Entry) {
	for i := from + 1; i <= to; i++ {
		if isCommand(i) {
			list = append(list, Entry{Index: i, Command: command(i)})
		}
	}
	return list
}

// owner does what quorum does: it applies entries, appends them to the tail, syncs, and writes checkpoints whose cut is in the past.
type owner struct {
	t       testing.TB
	fsys    *storagetest.Mem
	tail    *Tail
	applied uint64
	durable uint64 // the Raft log is cut up to here: a crash must not lose it
}

func newOwner(t testing.TB, fsys *storagetest.Mem) *owner { return &owner{t: t, fsys: fsys} }

// reopen is a new process: it must find all that was durable, and exactly the log.
func (o *owner) reopen() {
	o.t.Helper()
	r, ok, err := Load(o.fsys, testDir)
	if errors.Is(err, storagetest.ErrInjected) {
		r, ok, err = Load(o.fsys, testDir)
	}
	if err != nil {
		o.t.Fatalf("load, durable up to %d: %v", o.durable, err)
	}
	if !ok {
		if o.durable > 0 {
			o.t.Fatalf("no checkpoint, durable was %d", o.durable)
		}
		o.tail, o.applied = nil, 0
		return
	}
	if r.ShardID != testShard || !bytes.Equal(r.Snapshot, snapshot(r.Index)) {
		o.t.Fatalf("shard %d, snapshot of %d bytes at %d", r.ShardID, len(r.Snapshot), r.Index)
	}
	o.tail, o.applied = r.Tail, r.Tail.LastIndex()
	if o.applied < o.durable {
		o.t.Fatalf("found up to %d, durable was %d", o.applied, o.durable)
	}
	if got := r.Tail.SyncedIndex(); got > o.applied || got < r.Index {
		o.t.Fatalf("synced index %d outside %d..%d", got, r.Index, o.applied)
	}
	checkEntries(o.t, r.Entries, entries(r.Index, o.applied))
}

func checkEntries(t testing.TB, got, want []Entry) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].Index != want[i].Index || !bytes.Equal(got[i].Command, want[i].Command) {
			t.Fatalf("entry %d: index %d with %d bytes, want %d with %d", i, got[i].Index, len(got[i].Command), want[i].Index, len(want[i].Command))
		}
	}
}

// apply applies n entries and appends them to the tail.
func (o *owner) apply(n int) error {
	for range n {
		next := o.applied + 1
		if isCommand(next) && o.tail != nil {
			if err := o.tail.Append(next, command(next)); err != nil {
				return err
			}
		}
		o.applied = next
	}
	return nil
}

func (o *owner) sync() error {
	if o.tail == nil {
		return nil
	}
	if err := o.tail.Sync(); err != nil {
		return err
	}
	o.durable = o.tail.SyncedIndex()
	return nil
}

// checkpoint writes one whose cut was back entries ago.
func (o *owner) checkpoint(back uint64) error {
	if back > o.applied {
		back = 0
	}
	cut := o.applied - back
	tail, err := Write(o.fsys, testDir, Checkpoint{ShardID: testShard, Index: cut, Snapshot: snapshot(cut)}, entries(cut, o.applied)...)
	if err != nil {
		return err
	}
	if o.tail != nil {
		_ = o.tail.Close() // an injected fault may be met here
	}
	o.tail, o.durable = tail, tail.SyncedIndex()
	if tail.LastIndex() != o.durable {
		o.t.Fatalf("written up to %d, durable %d", tail.LastIndex(), o.durable)
	}
	return nil
}

// step does one random thing. ErrNotNewer is an answer, not a failure.
func (o *owner) step(rng *rand.Rand) error {
	switch n := rng.IntN(100); {
	case n < 70:
		return o.apply(1 + rng.IntN(3))
	case n < 90:
		return o.sync()
	}
	if err := o.checkpoint(rng.Uint64N(12)); !errors.Is(err, ErrNotNewer) {
		return err
	}
	return nil
}

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

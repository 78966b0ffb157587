package queue

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/warrenmq/warren/internal/machine"
)

func FuzzDecodeCommand(f *testing.F) {
	for _, e := range encodings {
		f.Add(AppendCommand(nil, &e.c))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var c, again Command
		rest, err := DecodeCommand(src, &c)
		if err != nil {
			return
		}
		if len(rest) >= len(src) || !c.Op.IsKnown() {
			t.Fatalf("op %d, %d of %d bytes left", c.Op, len(rest), len(src))
		}
		encoded := AppendCommand(nil, &c)
		if rest, err := DecodeCommand(encoded, &again); err != nil || len(rest) != 0 || !reflect.DeepEqual(c, again) {
			t.Fatalf("%+v came back as %+v: %v", c, again, err)
		}
	})
}

// FuzzEntry feeds bytes to the way that proposals go. Whatever passes the proposer's checks must not break a machine.
func FuzzEntry(f *testing.F) {
	for seed := range uint64(4) {
		r := &runner{m: New(Config{})}
		h := generate(seed)
		for i := range h.steps[:20] {
			if s := &h.steps[i]; !s.restart && s.offset == 0 {
				f.Add(r.encode(s))
			}
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var e Entry
		if DecodeEntry(src, &e) != nil || e.Kind == EntryBatch && ValidateBatch(src) != nil {
			return
		}
		r := &runner{m: New(Config{PriorityMax: 3})}
		for _, l := range []string{"enqueue size=3 times=5", "subscribe s1 c1 prefetch=2", "subscribe s1 c2 noack", "get s2", "subscribe s1 c1 at=2.1"} {
			r.play(t, l)
		}
		if e.Kind == EntryBatch {
			e.Batch.K = r.m.LastK(e.Batch.Pipeline) + 1
			r.m.ApplyBatch(machine.Stamp{NowMillis: e.NowMillis}, &e.Batch, nil)
		} else {
			r.m.Apply(machine.Stamp{NowMillis: e.NowMillis}, &e.Command, nil)
		}
		if err := r.m.Check(); err != nil {
			t.Fatal(err)
		}
		if err := sameAfterRestore(r.m); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzRestore feeds damaged snapshots.
func FuzzRestore(f *testing.F) {
	for _, s := range snapshots(6) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if err := tryRestore(src); err != nil {
			t.Fatal(err)
		}
	})
}

// snapshots returns snapshots of random machines in the middle of their work.
func snapshots(n int) (all [][]byte) {
	for seed := range uint64(n) {
		h := generate(seed + 7)
		h.b.returns, h.b.releases = 1, 1
		r := &runner{m: newMachine(Config{}, h.b)}
		for i := range h.steps[:60] {
			if s := &h.steps[i]; !s.restart && s.offset == 0 {
				if _, err := r.run(s); err != nil {
					panic(err)
				}
			}
		}
		all = append(all, r.m.AppendSnapshot(nil))
	}
	return all
}

// tryRestore wants an error or a machine that works.
func tryRestore(src []byte) error {
	m, err := Restore(src)
	if err != nil {
		return nil
	}
	if err := m.Check(); err != nil {
		return fmt.Errorf("restored a broken machine: %w", err)
	}
	if err := sameAfterRestore(m); err != nil {
		return err
	}
	var out []Effect
	for i, p := range m.Pipelines(nil) {
		b := Batch{Pipeline: p, K: m.LastK(p) + 1, Count: 4}
		for _, c := range []Command{{Op: OpEnqueue, BodyBytes: 1}, {Op: OpGet, Session: 1}, {Op: OpDrained, Session: 1, To: 1 << 63}, {Op: OpSettle, Session: 1, From: 1, To: 100, Outcome: Outcome(1 + i%5)}} {
			b.Commands = AppendCommand(b.Commands, &c)
		}
		_, out = m.ApplyBatch(machine.Stamp{}, &b, out[:0])
	}
	_, out = m.Apply(machine.Stamp{}, &Command{Op: OpUnseal, To: 1}, out[:0])
	_, out = m.Apply(machine.Stamp{}, &Command{Op: OpNodeGone, Node: 1, Boot: Boot{Counter: 1 << 40}}, out[:0])
	m.Apply(machine.Stamp{}, &Command{Op: OpTick}, out[:0])
	return m.Check()
}

// TestRestoreDamaged flips and cuts every octet of some snapshots.
func TestRestoreDamaged(t *testing.T) {
	refused, accepted := 0, 0
	for n, s := range snapshots(12) {
		for i := range s {
			for _, flip := range []byte{0x01, 0x80, 0xFF} {
				damaged := append([]byte(nil), s...)
				damaged[i] ^= flip
				if err := tryRestore(damaged); err != nil {
					t.Fatalf("snapshot %d, octet %d of %d, flipped %x: %v\n%x", n, i, len(s), flip, err, damaged)
				}
				if _, err := Restore(damaged); err != nil {
					refused++
				} else {
					accepted++
				}
			}
			if _, err := Restore(s[:i]); err == nil {
				t.Fatalf("snapshot %d cut to %d of %d octets is restored", n, i, len(s))
			}
		}
		if _, err := Restore(append(append([]byte(nil), s...), 0)); err == nil {
			t.Fatal("a snapshot with something behind it is restored")
		}
	}
	if refused == 0 || accepted == 0 {
		t.Fatalf("%d refused, %d accepted: the test shows nothing", refused, accepted)
	}
	if _, err := Restore([]byte{snapshotVersion + 1}); err != ErrSnapshotVersion {
		t.Fatalf("a newer version: %v", err)
	}
}

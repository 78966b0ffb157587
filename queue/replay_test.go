package queue

import (
	"encoding/hex"
	"fmt"
	"testing"
)

const replayHistories = 25

// recordHistory plays a random history and returns its log and what every entry led to.
func recordHistory(t *testing.T, seed uint64) (h *history, entries [][]byte, answers []string) {
	t.Helper()
	h = generate(seed)
	r := &runner{m: newMachine(Config{}, h.b)}
	for i := range h.steps {
		s := &h.steps[i]
		if s.restart || s.isBatch() && int64(r.m.LastK(s.pipeline))+1+s.offset < 1 {
			continue
		}
		a, err := r.run(s)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a.String())
	}
	return h, r.entries, answers
}

// TestReplayFromEveryPrefix restores a snapshot taken after each entry of a log and plays the rest: the answers and the last snapshot must be those of the machine that never stopped.
func TestReplayFromEveryPrefix(t *testing.T) {
	for seed := range uint64(replayHistories) {
		h, entries, answers := recordHistory(t, seed)
		m := newMachine(Config{}, h.b)
		prefixes := make([][]byte, 0, len(entries)+1)
		for i, entry := range entries {
			prefixes = append(prefixes, m.AppendSnapshot(nil))
			a, err := applyEntry(m, uint64(i+1), entry)
			if err != nil || a.String() != answers[i] {
				t.Fatalf("seed %d: the same log gives another answer at entry %d: %v\n%s\nwas\n%s", seed, i, err, a.String(), answers[i])
			}
		}
		last := m.AppendSnapshot(nil)
		for at, prefix := range prefixes {
			if err := replay(prefix, h.b, entries[at:], answers[at:], uint64(at), last); err != nil {
				t.Fatalf("seed %d: from entry %d: %v", seed, at, err)
			}
		}
	}
}

func replay(prefix []byte, b bounds, entries [][]byte, answers []string, index uint64, last []byte) error {
	m, err := restore(prefix, b)
	if err != nil {
		return err
	}
	for i, entry := range entries {
		a, err := applyEntry(m, index+uint64(i)+1, entry)
		if err != nil || a.String() != answers[i] {
			return fmt.Errorf("entry %d: %v\n%s\nwas\n%s", i, err, a.String(), answers[i])
		}
	}
	if got := m.AppendSnapshot(nil); string(got) != string(last) {
		return fmt.Errorf("ends as\n%x\nwas\n%x", got, last)
	}
	return nil
}

// TestSnapshotsAreCanonical reaches one state on different ways.
func TestSnapshotsAreCanonical(t *testing.T) {
	play := func(lines ...string) string {
		r := &runner{m: New(Config{}), still: true}
		for _, l := range lines {
			r.play(t, l)
		}
		r.m.totals = totals{}
		for _, p := range r.m.pipelines {
			p.lastK, p.outcomes = 1, [pipelineWindow][]byte{}
		}
		if err := r.m.Check(); err != nil {
			t.Fatal(err)
		}
		return string(r.m.AppendSnapshot(nil))
	}
	// Messages that came back unseen are as those that never went.
	want := play("enqueue times=100", "get s1", "settle s1 ack from=1")
	if got := play("enqueue times=50", "get s1; get s1; get s1", "enqueue times=50", "settle s1 fresh from=2 to=3", "settle s1 ack from=1"); got == want {
		t.Fatal("different delivery numbers give the same snapshot")
	}
	got := play("enqueue times=40", "get s2; get s2; get s2; get s2", "settle s2 fresh from=4", "settle s2 fresh from=1 to=3", "close s2", "enqueue times=60", "get s1", "settle s1 ack from=1")
	if got != want {
		t.Errorf("returned messages:\n%x\nwant\n%x", got, want)
	}
	// Consumers stand in the same line, however they came there.
	want = play("subscribe s1 c1 prefetch=1", "subscribe s1 c2 prefetch=1", "enqueue times=2", "settle s1 ack from=2", "settle s1 ack from=1")
	if got := play("subscribe s1 c1 prefetch=1; subscribe s1 c2 prefetch=1; enqueue; enqueue", "settle s1 ack from=1", "settle s1 ack from=2"); got == want {
		t.Error("the order of waiting consumers is not in the snapshot")
	}
}

// TestRestoreOldVersions reads snapshots from before there were evicted pipelines, from before there were times and limits, and from before plain messages were packed.
func TestRestoreOldVersions(t *testing.T) {
	for i, text := range []string{
		"010000000000000000000000000100000000000000000000000000000000000000",
		"01030904010000000000001388060000010005010001000000000001040401e80781010101e8070101e8070101f0a20404000002010002060201010000000000000000010100000207000000000000010201030005000001030005000001000002010100010101fffffffe018020100000010101090a00800100ac02010000000000",
		"010000000000000000000036b00801010000070000030100000000000300010080010000020080010000030080010001000000000000000070000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000002010202000102010000000000000000010200050000010000010101000000010100000e0080010000",
		"020000000000000000000000000100000000000000000000000000000000000000",
		"02030904010000000000001388060000010005010001000000000001040401e80781010101e8070101e8070101f0a204040000020100020602010100000000000000000100010000020700000000000001020100030005000001030005000001000002010100010101fffffffe018020100000010101090a00800100ac02010000000000",
		"020000000000000000000036b0080101000007000003010000000000030001008001000002008001000003008001000100000000000000007000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000201020200010201000000000000000001000200050000010000010101000000010100000e0080010000",
		"030000000000000000000000000100000000000000000000000000000000000000000000000000000000000000000000000000",
		"030309040100000000000013880600000100a01f010005010001000000000000000000000001040401e80781a01f010101e807010001e807010001f0a2040400000000000000000002010002060201010000000000000000010001000002070000000000000102010003000500000103000500000100000201010001000000000101fffffffe018020100000010000000001010100090a0080a01f0100ac020100000000000000000000000000",
		"030000000000000000000036b00801010000c865000007000003010000000000000000000000030000010080e05d010000020080e05d010000030080e05d010000000000000100000000000000007000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000201020200010201000000000000000001000200050000010000010101000000000000000001010000000e0080f0ab01010000000000",
		"03000000000000000000003a980300000000987500000000000000000000000000000000000000000000000000000101000101010000000000000000010001000101000000000000000001020001ac0201b0ea010001004000a17501040201080000000000",
	} {
		src, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Restore(src)
		if err != nil {
			t.Fatalf("snapshot %d: %v", i, err)
		}
		if err := sameAfterRestore(m); err != nil {
			t.Errorf("snapshot %d: %v", i, err)
		}
	}
}

package quorum

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/internal/codec"
	"github.com/warrenmq/warren/queue"
	"github.com/warrenmq/warren/storage"
	"github.com/warrenmq/warren/storage/segment"
)

// TestABodyCountsItsEntry: an envelope keeps the log entry that it is part of in memory, so all of that counts until the last envelope of it is gone.
func TestABodyCountsItsEntry(t *testing.T) {
	var b bodies
	for e := range 3 {
		entry := b.newEntry(1000)
		for i := range 10 {
			b.put(queue.Seq(250+10*e+i), []byte("envelope"), entry)
		}
	}
	b.release(251, 269) // all of the second entry, and of the first one all but one
	if b.bytes != 2000 || b.count != 11 {
		t.Errorf("%d bytes of %d envelopes, want 2000 of 11", b.bytes, b.count)
	}
	for seq := queue.Seq(250); seq < 280; seq++ {
		b.markSaved(seq, seq >= 270)
	}
	if b.bytes != 1000 || b.count != 1 || string(b.get(250)) != "envelope" {
		t.Errorf("%d bytes of %d envelopes, want 1000 of 1", b.bytes, b.count)
	}
	b.evictSaved()
	if b.bytes != 0 || b.count != 0 || len(b.pages) != 0 {
		t.Errorf("%d bytes of %d envelopes are left", b.bytes, b.count)
	}
}

// TestManySmallQueuesLeaveMemory: no queue has much, all together have far too much.
func TestManySmallQueuesLeaveMemory(t *testing.T) {
	const queues, size, budget = 30, 900 << 10, 4 << 20
	h := openHost(t, t.TempDir(), func(c *Config) { c.BodiesInMemoryBytes = budget })
	c := newRecorder()
	s := h.OpenSession(c)
	body := bytes.Repeat([]byte("x"), size)
	for i := range queues {
		cmd := queue.Command{Op: queue.OpEnqueue, BodyBytes: size, Envelope: body}
		if err := s.Submit(declare(t, h, fmt.Sprint("q", i), true), &cmd, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		s.Flush()
	}
	c.await(t, "confirms", func() bool { return len(c.replies) == queues })
	until(t, "bodies are on disk", func() bool { return h.bodyBytes.Load() <= budget+limits.BodiesExcessBytes })
	if h.Pressed() {
		t.Error("publishers are still held back")
	}
}

// heapReader notes how large the heap became while it was read.
type heapReader struct {
	io.Reader
	read, next int64
	peak       uint64
}

func (r *heapReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.read += int64(n); r.read >= r.next {
		r.next = r.read + 8<<20
		r.peak = max(r.peak, heapInUse())
	}
	return n, err
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestFullCopyTakesLittleMemory: a member that gets a full copy of a long queue writes it down as it comes.
func TestFullCopyTakesLittleMemory(t *testing.T) {
	const messages, size = 200, 256 << 10
	m := queue.New(queue.Config{})
	src, dst := io.Pipe()
	go func() {
		out := codec.AppendBytes(codec.AppendUint64(nil, 77), m.AppendSnapshot(nil))
		_, err := dst.Write(codec.AppendUvarint(out, messages))
		for seq := uint64(1); seq <= messages && err == nil; seq++ {
			_, err = dst.Write(codec.AppendBytes(codec.AppendUvarint(nil, seq), bytes.Repeat([]byte{byte(seq)}, size)))
		}
		dst.CloseWithError(err)
	}()
	store, err := segment.Open(storage.OS, t.TempDir(), func(uint64) segment.Mask { return segment.Mask{} })
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	before := heapInUse()
	r := &heapReader{Reader: src}
	_, index, err := readCut(r, store)
	if err != nil || index != 77 || store.Len() != messages {
		t.Fatalf("index %d, %d messages, %v", index, store.Len(), err)
	}
	if most := before + 16<<20; r.peak > most || r.peak == 0 {
		t.Errorf("the heap has %d bytes, want at most %d, for %d of bodies", r.peak, most, messages*size)
	}
	if body, err := store.Read(messages); err != nil || !bytes.Equal(body, bytes.Repeat([]byte{messages}, size)) {
		t.Errorf("the last body has %d bytes, %v", len(body), err)
	}
}

// TestTornCopyIsRefused: what ends too early is no state.
func TestTornCopyIsRefused(t *testing.T) {
	whole := codec.AppendBytes(codec.AppendUint64(nil, 77), queue.New(queue.Config{}).AppendSnapshot(nil))
	whole = codec.AppendBytes(codec.AppendUvarint(codec.AppendUvarint(whole, 1), 5), []byte("body"))
	store, err := segment.Open(storage.OS, t.TempDir(), func(uint64) segment.Mask { return segment.Mask{} })
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for n := range len(whole) {
		if _, _, err := readCut(strings.NewReader(string(whole[:n])), store); err == nil {
			t.Fatalf("%d of %d bytes are taken for all", n, len(whole))
		}
	}
	if _, _, err := readCut(bytes.NewReader(whole), store); err != nil || store.Len() != 1 {
		t.Errorf("%d messages, %v", store.Len(), err)
	}
}

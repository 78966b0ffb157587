package wal

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warrenmq/warren/storage"
)

// BenchmarkCommit commits entries of many groups; plain is the same by appending to one file and syncing it, writers taking turns.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 64} {
		for _, size := range []int{1 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("wal/writers=%d/bytes=%d", writers, size), func(b *testing.B) { benchmarkLog(b, writers, size) })
			b.Run(fmt.Sprintf("plain/writers=%d/bytes=%d", writers, size), func(b *testing.B) { benchmarkPlain(b, writers, size) })
		}
	}
}

// share has work done b.N times by so many goroutines.
func share(b *testing.B, writers, size int, work func(writer int, round uint64) error) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := uint64(1); left.Add(-1) >= 0; i++ {
				if err := work(w, i); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	b.StopTimer()
}

func benchmarkLog(b *testing.B, writers, size int) {
	l, err := Open(Options{FS: storage.OS, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	updates := make([][]Update, writers)
	for w := range updates {
		updates[w] = []Update{{Group: Group{uint64(w), 1}, Entries: make([]byte, size), Ends: []uint32{uint32(size)}}}
	}
	// So long that the files are used for the second time, as they are from then on.
	warm := make([]byte, 1<<20)
	for i := uint64(1); i <= 40; i++ {
		g := Group{1 << 20, 1}
		if err := l.Commit([]Update{{Group: g, First: i, Entries: warm, Ends: []uint32{uint32(len(warm))}}}); err != nil {
			b.Fatal(err)
		}
		_ = l.TruncateTo(g, i)
	}
	l.Stats()
	share(b, writers, size, func(w int, i uint64) error {
		u := updates[w]
		u[0].First = i
		if i%64 == 0 {
			if err := l.TruncateTo(u[0].Group, i-8); err != nil {
				return err
			}
		}
		return l.Commit(u)
	})
	s := l.Stats()
	b.ReportMetric(float64(s.Commits)/float64(s.Syncs), "commits/sync")
}

func benchmarkPlain(b *testing.B, writers, size int) {
	f, err := storage.OS.Create(filepath.Join(b.TempDir(), "plain"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	data := make([]byte, size)
	var mu sync.Mutex
	share(b, writers, size, func(int, uint64) error {
		mu.Lock()
		defer mu.Unlock()
		if _, err := f.Write(data); err != nil {
			return err
		}
		return f.Sync()
	})
}

// BenchmarkRead reads small entries in runs of 1,000, from memory and from files.
func BenchmarkRead(b *testing.B) {
	const run, perRecord = 1000, 50
	for _, from := range []string{"tail", "files"} {
		b.Run(from, func(b *testing.B) {
			dir := b.TempDir()
			l, err := Open(Options{FS: storage.OS, Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			u := Update{Group: Group{1, 1}, First: 1}
			for i := range perRecord {
				u.Entries = append(u.Entries, make([]byte, 200)...)
				u.Ends = append(u.Ends, uint32(200*(i+1)))
			}
			for u.First <= 20*run {
				if err := l.Commit([]Update{u}); err != nil {
					b.Fatal(err)
				}
				u.First += perRecord
			}
			if from == "files" {
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
				if l, err = Open(Options{FS: storage.OS, Dir: dir}); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(200 * run)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				low := 1 + uint64(i%20)*run
				n := 0
				if err := l.Read(u.Group, low, low+run, func(uint64, []byte) bool { n++; return true }); err != nil || n != run {
					b.Fatal(err, n)
				}
			}
		})
	}
}

// BenchmarkOpen reads a log of 64 MiB with entries of 1 KiB.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	l, err := Open(Options{FS: storage.OS, Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	var updates []Update
	for g := range uint64(64) {
		updates = append(updates, Update{Group: Group{g, 1}, First: 1, Entries: make([]byte, 1024), Ends: []uint32{1024}})
	}
	for range 1024 {
		if err := l.Commit(updates); err != nil {
			b.Fatal(err)
		}
		for i := range updates {
			updates[i].First++
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(64 << 20)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		l, err := Open(Options{FS: storage.OS, Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// A commit must not allocate for each entry: the log's memory is used again.
func TestCommitAllocatesLittle(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(Options{FS: storage.OS, Dir: dir, FileBytes: 1 << 20})
	must(t, err)
	defer l.Close()
	u := entriesOf(a, 1)
	for range 100 {
		u.Entries = append(u.Entries, "ten bytes."...)
		u.Ends = append(u.Ends, uint32(len(u.Entries)))
	}
	u.State = []byte("state")
	updates := []Update{u}
	next := uint64(1)
	step := func() {
		updates[0].First = next
		next += 100
		if err := l.Commit(updates); err != nil {
			t.Fatal(err)
		}
		if err := l.TruncateTo(a, next-300); next > 300 && err != nil {
			t.Fatal(err)
		}
	}
	for range 300 {
		step()
	}
	if got := testing.AllocsPerRun(200, step); got > 4 {
		t.Errorf("%.1f allocations for a commit of 100 entries and a truncation", got)
	}
}

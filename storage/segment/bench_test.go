package segment

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/storage"
)

func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := Open(storage.OS, b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// One iteration is one body; a Sync follows each MiB, as a checkpoint of that much would do, and old bodies are collected.
func BenchmarkAppendSync(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, body := benchStore(b), make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			unsynced, released := 0, uint64(0)
			for i := range b.N {
				if err := s.Append(uint64(i), body); err != nil {
					b.Fatal(err)
				}
				if unsynced += size; unsynced >= 1<<20 || i == b.N-1 {
					if err := s.Sync(); err != nil {
						b.Fatal(err)
					}
					unsynced = 0
				}
				if live := uint64(i) - released; live*uint64(size) > 256<<20 {
					for ; released < uint64(i); released++ {
						s.Release(released, released)
					}
					if err := s.Collect(s.Cut()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// The bodies are in the page cache: it is the cost of index, call and checksum.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := benchStore(b)
			count := uint64(max(1, min(100_000, (64<<20)/size)))
			body := make([]byte, size)
			for seq := range count {
				if err := s.Append(seq, body); err != nil {
					b.Fatal(err)
				}
			}
			if err := s.Sync(); err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, size+64)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if _, err := s.ReadInto(uint64(i)%count, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRelease(b *testing.B) {
	s := benchStore(b)
	for seq := range uint64(b.N) {
		s.index.put(seq, place{number: 1})
	}
	s.segments = []*segmentFile{{number: 1}}
	b.ReportAllocs()
	b.ResetTimer()
	for seq := range uint64(b.N) {
		s.Release(seq, seq)
		if seq%10_000 == 0 {
			s.dropReleased(s.Cut())
		}
	}
	s.segments = nil
}

// A purge of ten million messages whose bodies are alike in nothing is one call, for which an entry of the queue's log waits.
func BenchmarkReleaseAll(b *testing.B) {
	const count = 10_000_000
	for b.Loop() {
		b.StopTimer()
		s := benchStore(b)
		for seq := range uint64(count) {
			s.index.put(seq, place{number: 1, offset: uint32(seq * 7919), bodyBytes: uint32(seq*104729) >> 8})
		}
		s.segments = []*segmentFile{{number: 1}}
		b.StartTimer()
		s.Release(0, count-1)
		b.StopTimer()
		s.segments = nil
		b.StartTimer()
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(storage.OS, dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 1<<10)
	for seq := range uint64(100_000) {
		if err := s.Append(seq, body); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Sync(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(s.Stats().DiskBytes)
	b.ReportAllocs()
	_ = s.Close()
	b.ResetTimer()
	for range b.N {
		s, err := Open(storage.OS, dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		_ = s.Close()
	}
}

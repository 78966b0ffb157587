package checkpoint

import (
	"fmt"
	"testing"

	"github.com/warrenmq/warren/storage"
)

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			dir, state := b.TempDir(), make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := range b.N {
				tail, err := Write(storage.OS, dir, Checkpoint{Index: uint64(i), Snapshot: state})
				if err != nil {
					b.Fatal(err)
				}
				if err := tail.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTailAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			tail, err := Write(storage.OS, b.TempDir(), Checkpoint{})
			if err != nil {
				b.Fatal(err)
			}
			defer tail.Close()
			command := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			unsynced := 0
			for i := range b.N {
				if err := tail.Append(uint64(i+1), command); err != nil {
					b.Fatal(err)
				}
				if unsynced += size; unsynced >= 1<<20 {
					if err := tail.Sync(); err != nil {
						b.Fatal(err)
					}
					unsynced = 0
				}
			}
		})
	}
}

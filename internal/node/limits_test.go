package node

import (
	"math"
	"testing"

	"github.com/warrenmq/warren/config"
)

func TestConnectionMax(t *testing.T) {
	for files, want := range map[uint64]int{0: 0, math.MaxUint64: 0, 100: 50, 1024: 768, 65536: 58983, 1 << 20: 943719} {
		if got := filesForClients(files); got != want {
			t.Errorf("%d open files: %d connections, want %d", files, got, want)
		}
	}
	if got := connectionMax(7); got != 7 {
		t.Errorf("configured 7: %d", got)
	}
	if got := connectionMax(config.Infinite); got != 0 {
		t.Errorf("configured infinity: %d", got)
	}
}

func TestUnackedMax(t *testing.T) {
	const mib = 1 << 20
	for memory, want := range map[uint64]uint64{1: 8 * mib, 64 * mib: 8 * mib, 400 * mib: 92 * mib, math.MaxInt64: math.MaxInt64/100*25 - 8*mib} {
		if got := unackedMax(memory); got != want {
			t.Errorf("memory limit %d: %d, want %d", memory, got, want)
		}
	}
	if got := unackedMax(0); got < 8*mib {
		t.Errorf("the platform's: %d", got)
	}
}

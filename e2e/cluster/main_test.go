package cluster

import (
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// pick returns the number for the long tests or that for the others.
func pick[T any](few, full T) T {
	if harness.Full() {
		return full
	}
	return few
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

package config

import (
	"testing"

	"github.com/warrenmq/warren/internal/alarm"
)

func TestSetAlarms(t *testing.T) {
	var a Alarms
	for _, c := range []struct{ key, value, problem string }{
		{"vm_memory_high_watermark.relative", "0.4", ""},
		{"vm_memory_high_watermark.relative", "1.01", "vm_memory_high_watermark.relative: 1.01 is out of range; use 0 to 1"},
		{"disk_free_limit.absolute", "2GB", ""},
		{"disk_free_limit.relative", "-1", `disk_free_limit.relative: "-1" is not a fraction; use a decimal number like 0.6`},
		{"disk_free_limit.absolute", "much", `disk_free_limit.absolute: "much" is not a size; use a number of bytes or a size like 16MiB or 2GB`},
		{"data_dir", "x", "data_dir is not a limit that can be set"},
	} {
		problem := ""
		if err := a.Set(c.key, c.value); err != nil {
			problem = err.Error()
		}
		if problem != c.problem {
			t.Errorf("%s = %s: %q, want %q", c.key, c.value, problem, c.problem)
		}
	}
	if want := (Alarms{MemoryHigh: alarm.Relative(0.4), DiskFree: alarm.Absolute(2e9)}); a != want {
		t.Errorf("got %+v, want %+v", a, want)
	}
	if keys := AlarmKeys(); len(keys) != 4 {
		t.Errorf("keys %q", keys)
	}
}

// TestCounts: what has no bound is written as infinity, as in RabbitMQ.
func TestCounts(t *testing.T) {
	for text, want := range map[string]int{"infinity": Infinite, "12": 12} {
		v, p := (&Key{Type: Count, Min: 1, Max: 100}).parse(text)
		if p != nil || countOf(v) != want {
			t.Errorf("%s: %d %v", text, countOf(v), p)
		}
	}
	for _, text := range []string{"0", "101", "-1", "many"} {
		if _, p := (&Key{Type: Count, Min: 1, Max: 100}).parse(text); p == nil {
			t.Errorf("%s was read", text)
		}
	}
}

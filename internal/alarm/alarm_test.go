package alarm

import (
	"math"
	"testing"
	"testing/fstest"
	"time"
)

const mib = 1 << 20

func TestJudge(t *testing.T) {
	b := Bounds{MemoryHighBytes: 1000 * mib, MemoryLimitBytes: 2000 * mib, DiskLimitBytes: 1000 * mib}
	for _, c := range []struct {
		name         string
		was          Set
		memory, free uint64
		want         Set
	}{
		{"well", 0, 1000, 1000, 0},
		{"memory above the watermark", 0, 1001, 1000, Memory},
		{"disk below the limit", 0, 0, 999, Disk},
		{"both", 0, 1001, 999, Memory | Disk},
		{"disk below the floor", 0, 0, 31, Disk | DiskFull},
		{"memory not yet better", Memory, 960, 2000, Memory},
		{"memory better", Memory, 940, 2000, 0},
		{"disk not yet better", Disk, 0, 1040, Disk},
		{"disk better", Disk, 0, 1060, 0},
		{"the floor not yet left", Disk | DiskFull, 0, 33, Disk | DiskFull},
		{"the floor left", Disk | DiskFull, 0, 34, Disk},
	} {
		if got := Judge(c.was, Usage{MemoryBytes: c.memory * mib, DiskFreeBytes: c.free * mib, DiskKnown: true}, b); got != c.want {
			t.Errorf("%s: %b, want %b", c.name, got, c.want)
		}
	}
	if got := Judge(0, Usage{}, b); got != 0 {
		t.Errorf("a platform that tells nothing: %b", got)
	}
	if got := Judge(0, Usage{DiskKnown: true}, Bounds{}); got != 0 {
		t.Errorf("no limits: %b", got)
	}
}

func TestReason(t *testing.T) {
	for s, want := range map[Set]string{0: "", Memory: "low on memory", Disk: "low on disk", Disk | DiskFull: "low on disk", Memory | Disk: "low on disk & memory"} {
		if got := s.Reason(); got != want {
			t.Errorf("%b: %q, want %q", s, got, want)
		}
	}
}

func TestBounds(t *testing.T) {
	const limit = 1000 * mib
	for _, c := range []struct {
		name         string
		memory, disk Threshold
		diskBytes    uint64
		want         Bounds
	}{
		{"defaults", Threshold{}, Threshold{}, 2000 * mib, Bounds{600 * mib, limit, 200 * mib}},
		{"a large disk", Threshold{}, Threshold{}, 1 << 40, Bounds{600 * mib, limit, 1 << 30}},
		{"relative", Relative(0.25), Relative(2), 0, Bounds{250 * mib, limit, 2000 * mib}},
		{"absolute", Absolute(5), Absolute(7), 0, Bounds{5, limit, 7}},
		{"none", Relative(0), Absolute(0), 1 << 40, Bounds{0, limit, 0}},
	} {
		m := newMonitor(Options{MemoryHigh: c.memory, DiskFree: c.disk, MemoryLimitBytes: limit})
		if got := m.bounds(Usage{DiskBytes: c.diskBytes}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	m := newMonitor(Options{MemoryHigh: Relative(0.1), DiskFree: Relative(1), MemoryLimitBytes: math.MaxInt64})
	if got := m.bounds(Usage{DiskBytes: 1000}); got.DiskLimitBytes != 100 || got.MemoryHighBytes < math.MaxInt64/2 {
		t.Errorf("a platform that does not tell its memory: %+v", got)
	}
}

// TestGarbageRaisesNoAlarm: above the watermark garbage is collected first; only what is left, or a value near the limit, raises the alarm.
func TestGarbageRaisesNoAlarm(t *testing.T) {
	used, live, collections := uint64(0), uint64(0), 0
	var told []Set
	m := newMonitor(Options{MemoryHigh: Absolute(600), MemoryLimitBytes: 1000, Changed: func(s Set) { told = append(told, s) }})
	m.measure = func() Usage { return Usage{MemoryBytes: used} }
	m.collect = func() { used, collections = live, collections+1 }
	now := time.Unix(1000, 0)
	step := func(after time.Duration, garbageAndLive, alive uint64, want Set, wantCollections int) {
		t.Helper()
		now = now.Add(after)
		used, live = garbageAndLive, alive
		m.tick(now)
		if got := m.Status().Alarms; got != want || collections != wantCollections {
			t.Fatalf("alarms %b after %d collections, want %b after %d", got, collections, want, wantCollections)
		}
	}
	step(0, 600, 600, 0, 0)
	step(lookPeriod, 700, 100, 0, 1)        // garbage
	step(lookPeriod, 700, 100, 0, 1)        // again, so soon that it is believed
	step(lookPeriod, 801, 801, Memory, 1)   // half of the way from the watermark to the limit: not to be waited for
	step(lookPeriod, 700, 100, Memory, 1)   // it stays until it is known better
	step(collectPause, 700, 100, 0, 2)      // and it is
	step(collectPause, 700, 601, Memory, 3) // in use
	step(collectPause, 571, 571, Memory, 3) // not better by the margin
	step(lookPeriod, 570, 570, 0, 3)
	if len(told) != 5 || told[0] != 0 || told[1] != Memory || told[4] != 0 {
		t.Errorf("told %b", told)
	}
}

// TestNewBoundsHoldAtOnce: the margin is for usage that moves; an operator's bound clears and raises alarms at once.
func TestNewBoundsHoldAtOnce(t *testing.T) {
	m := newMonitor(Options{DiskFree: Absolute(100), MemoryLimitBytes: 1000})
	m.measure = func() Usage { return Usage{MemoryBytes: 500, DiskFreeBytes: 102, DiskBytes: 1000, DiskKnown: true} }
	m.collect = func() {}
	want := func(want Set) {
		t.Helper()
		if got := m.Status().Alarms; got != want {
			t.Fatalf("alarms %b, want %b", got, want)
		}
	}
	m.tick(time.Now())
	want(0)
	m.SetDiskFree(Absolute(103))
	want(Disk)
	m.SetDiskFree(Absolute(102))
	want(0)
	m.SetMemoryHigh(Relative(0.4))
	want(Memory)
	m.SetMemoryHigh(Relative(0.5))
	want(0)
}

func TestPlatformLimit(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	const meminfo = "MemTotal:       24000000 kB\nMemFree: 1 kB\n"
	for _, c := range []struct {
		name string
		fs   fstest.MapFS
		want uint64
	}{
		{"a machine", fstest.MapFS{"proc/meminfo": file(meminfo)}, 24000000 << 10},
		{"a platform without /proc", fstest.MapFS{}, math.MaxInt64},
		{"version 2, no limit", fstest.MapFS{"proc/meminfo": file(meminfo), "proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/memory.max": file("max\n")}, 24000000 << 10},
		{
			"version 2, the least of the groups around counts",
			fstest.MapFS{
				"proc/meminfo": file(meminfo), "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n"), "sys/fs/cgroup/a/memory.max": file("5000\n"),
			}, 5000,
		},
		{"version 2 in a container", fstest.MapFS{"proc/self/cgroup": file("0::/../x\n"), "sys/fs/cgroup/memory.max": file("6000\n")}, 6000},
		{
			"version 1",
			fstest.MapFS{
				"proc/meminfo": file(meminfo), "proc/self/cgroup": file("12:cpu,memory:/docker/1\n1:name=x:/\n"), "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": file("7000\n"),
				"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"),
			}, 7000,
		},
		{
			"version 1, no limit", fstest.MapFS{"proc/meminfo": file(meminfo), "proc/self/cgroup": file("4:memory:/\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")},
			24000000 << 10,
		},
	} {
		if got := platformLimit(c.fs); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestStart looks at the real platform once.
func TestStart(t *testing.T) {
	told := make(chan Set, 10)
	m := Start(Options{Dir: t.TempDir(), MemoryHigh: Relative(0), DiskFree: Absolute(0), Changed: func(s Set) { told <- s }})
	defer m.Close()
	st := m.Status()
	if st.DiskKnown && (st.DiskFreeBytes == 0 || st.DiskBytes < st.DiskFreeBytes) {
		t.Errorf("disk: %+v", st.Usage)
	}
	if got, want := <-told, Judge(0, st.Usage, st.Bounds); got != want || (st.MemoryBytes > 0) != (got == Memory) {
		t.Errorf("told %b of %+v", got, st)
	}
	m.Close()
}

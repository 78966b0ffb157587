package progress

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// On a terminal one line is painted over and taken away in the end; in a file there is a line every few seconds.
func TestMeter(t *testing.T) {
	for name, c := range map[string]struct {
		terminal bool
		lines    int
		text     string
	}{
		"terminal": {true, 0, "\r\x1b[K2,000 messages confirmed, 200/s"},
		"file":     {false, 2, "2,000 messages confirmed, 200/s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				began := time.Now()
				count := func() uint64 { return uint64(time.Since(began).Seconds() * 200) }
				m := Start(&out, c.terminal, count)
				<-time.After(10*time.Second + time.Millisecond)
				if took := m.Stop(); took < 10*time.Second {
					t.Errorf("took %s", took)
				}
				if n := strings.Count(out.String(), "\n"); n != c.lines || !strings.Contains(out.String(), c.text) {
					t.Errorf("%d lines: %q", n, out.String())
				}
				if c.terminal && !strings.HasSuffix(out.String(), "\r\x1b[K") {
					t.Error("the line stays on the screen")
				}
			})
		})
	}
}

func TestQuietMeterCountsTime(t *testing.T) {
	if took := Start(nil, true, func() uint64 { t.Error("asked"); return 0 }).Stop(); took < 0 {
		t.Errorf("took %s", took)
	}
}

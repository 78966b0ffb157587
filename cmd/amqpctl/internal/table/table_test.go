package table

import (
	"strings"
	"testing"
	"time"
)

func render(t *testing.T, opt Options, columns []Column, rows ...[]string) string {
	t.Helper()
	var b strings.Builder
	table := Table{Columns: columns, Rows: rows}
	if err := table.Write(&b, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var columns = []Column{{Head: "NAME"}, {Head: "READY", Number: true}, {Head: "STATE"}}

func TestColumnsAreAligned(t *testing.T) {
	got := render(t, Options{}, columns, []string{"orders", "5", "running"}, []string{"grüße-ünïcode", "123456", ""}, []string{"short"})
	want := "" +
		"NAME            READY  STATE\n" +
		"orders              5  running\n" +
		"grüße-ünïcode  123456\n" +
		"short\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestNoHeadersAndNoRows(t *testing.T) {
	if got := render(t, Options{NoHeaders: true}, columns, []string{"a", "1", "b"}); got != "a  1  b\n" {
		t.Errorf("got %q", got)
	}
	if got := render(t, Options{}, columns); got != "NAME  READY  STATE\n" {
		t.Errorf("got %q", got)
	}
	if got := render(t, Options{NoHeaders: true, Bold: true}, columns); got != "" {
		t.Errorf("got %q", got)
	}
}

// A name is cut only to fit a screen, never in a file, and never a number.
func TestCutOnlyOnAScreen(t *testing.T) {
	long := strings.Repeat("x", 200)
	if got := render(t, Options{}, columns, []string{long, "1", "running"}); !strings.Contains(got, long) {
		t.Error("cut although no width was given")
	}
	got := render(t, Options{WidthRunes: 40}, columns, []string{long, "1234567890", "running"})
	for _, line := range strings.Split(strings.TrimSpace(got), "\n") {
		if n := len([]rune(line)); n > 40 {
			t.Errorf("line of %d characters: %q", n, line)
		}
	}
	if !strings.Contains(got, "xx…  1234567890  running") {
		t.Errorf("got %q", got)
	}
	if got := render(t, Options{WidthRunes: 5}, columns, []string{"name", "1", "s"}); !strings.Contains(got, "name") {
		t.Errorf("a short name was cut: %q", got)
	}
}

func TestBoldHeadings(t *testing.T) {
	got := render(t, Options{Bold: true}, columns, []string{"a", "1", "b"})
	if !strings.HasPrefix(got, "\x1b[1mNAME  READY  STATE\x1b[0m\na ") {
		t.Errorf("got %q", got)
	}
}

// Whoever may name a queue must not be able to drive the terminal of whoever lists it.
func TestControlCharactersAreEscaped(t *testing.T) {
	for in, want := range map[string]string{
		"plain näme ☃": "plain näme ☃", "a\x1b[31mb": `a\x1b[31mb`, "a\nb\t": `a\x0ab\x09`, "bad\xff": `bad\xff`, "rtl\u202eb": `rtl\u202eb`, "\ufffd": "\ufffd", "\x7f": `\x7f`, "c1\u009b": `c1\u009b`,
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestPairs(t *testing.T) {
	var b strings.Builder
	if err := WritePairs(&b, []Pair{{"Name", "a\x1bb"}, {"Arguments", "{}"}, {"Empty", ""}}); err != nil {
		t.Fatal(err)
	}
	if want := "Name       a\\x1bb\nArguments  {}\nEmpty\n"; b.String() != want {
		t.Errorf("got %q", b.String())
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Group(0), "0"}, {Group(999), "999"}, {Group(1000), "1,000"}, {Group(1234567), "1,234,567"}, {Group(-100), "-100"}, {Group(-1000), "-1,000"},
		{Rate(0), "0"}, {Rate(0.25), "0.2"}, {Rate(9.94), "9.9"}, {Rate(9.96), "10"}, {Rate(12345.6), "12346"},
		{Bytes(0), "0 B"}, {Bytes(1023), "1023 B"}, {Bytes(1536), "1.5 KiB"}, {Bytes(200 << 20), "200 MiB"}, {Bytes(3 << 40), "3.0 TiB"},
		{Age(59 * time.Second), "59s"}, {Age(61 * time.Second), "1m1s"}, {Age(2*time.Hour + 5*time.Minute), "2h5m"}, {Age(76 * time.Hour), "3d4h"},
		{Latency(1234), "0.001"}, {Latency(1_234_567), "1.23"}, {Latency(123_456_789), "123"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

package limits

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/e2e/harness"
)

// Exit codes of the server (sysexits).
const (
	exitUsage     = 64
	exitData      = 65
	exitPort      = 69
	exitDirectory = 73
)

// refusalTimeout is how long a server may take to find out that it cannot start.
const refusalTimeout = 20 * time.Second

// wantRefusal runs a server that must not start: the exit code, and one line on standard error with all of the words. Lines of the log, which may stand
// before it, begin with their time.
func wantRefusal(t *testing.T, cmd *exec.Cmd, code int, words ...string) {
	t.Helper()
	r, err := harness.Run(refusalTimeout, cmd)
	if err != nil {
		t.Fatalf("%v\n%v", err, r)
	}
	said := plainLines(r.Stderr)
	if r.Code != code || len(said) != 1 {
		t.Errorf("want exit code %d and one line, got %d lines and %v", code, len(said), r)
		return
	}
	for _, word := range words {
		if !strings.Contains(said[0], word) {
			t.Errorf("%q does not say %q", said[0], word)
		}
	}
}

// plainLines are the lines that are not of the log.
func plainLines(stderr string) []string {
	var said []string
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "time=") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	return said
}

// prepared is a broker that was not started, with addresses and a directory of its own.
func prepared(t *testing.T, opts harness.Options) *harness.Broker {
	t.Helper()
	harness.NeedProcess(t)
	b, err := harness.Prepare(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPortInUse(t *testing.T) {
	harness.NeedProcess(t)
	tests := map[string]func(b *harness.Broker) (address, key string){
		"amqp":    func(b *harness.Broker) (string, string) { return b.AMQP, "listeners.tcp" },
		"http":    func(b *harness.Broker) (string, string) { return b.HTTP, "management." },
		"metrics": func(b *harness.Broker) (string, string) { return b.Metrics, "prometheus." },
	}
	for name, of := range tests {
		t.Run(name, func(t *testing.T) {
			b := prepared(t, harness.Options{})
			address, key := of(b)
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			wantRefusal(t, b.Command(), exitPort, address, key)
			// Nothing was damaged: with the port free the same directory serves.
			l.Close()
			b.Launch(t)
			defer b.Close()
			served(t, b)
		})
	}
}

func TestDataDirectoryInUse(t *testing.T) {
	s := newStage(t, harness.Start(t, harness.Options{}))
	second := prepared(t, harness.Options{Dir: s.broker.DataDir})
	wantRefusal(t, second.Command(), exitDirectory, s.broker.DataDir, "in use", fmt.Sprint(s.broker.Pid()))
	s.lives(t)
	s.drained(t)
}

func TestDataDirectoryNotUsable(t *testing.T) {
	harness.NeedProcess(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "data"), "/proc/nowhere/data"} {
		b := prepared(t, harness.Options{Dir: dir})
		wantRefusal(t, b.Command(), exitDirectory, dir)
	}
}

// stopped is a stage whose broker has stopped cleanly.
func stopped(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, harness.Start(t, harness.Options{}))
	s.broker.Terminate(t)
	return s
}

// startsAgain starts the broker and wants all messages.
func (s *stage) startsAgain(t *testing.T) {
	t.Helper()
	s.broker.Launch(t)
	s.pid = s.broker.Pid()
	s.lives(t)
	s.drained(t)
}

// identityName is the file that says what the data directory is.
const identityName = "identity"

// rewrite changes a file and returns how to put it back.
func rewrite(t *testing.T, file string, change func([]byte) []byte) (restore func()) {
	t.Helper()
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(change(bytes.Clone(before)))
	return func() { write(before) }
}

// flipMiddle flips a bit in the middle of what was written: a file of the log is zeros behind that.
func flipMiddle(data []byte) []byte {
	data[len(bytes.TrimRight(data, "\x00"))/2] ^= 0x10
	return data
}

// reidentify changes a line of the identity file and returns how to put it back.
func reidentify(t *testing.T, file, before, after string) (restore func()) {
	t.Helper()
	return rewrite(t, file, func(data []byte) []byte {
		text, _, ok := strings.Cut(strings.Replace(string(data), before+"\n", after+"\n", 1), "crc32c ")
		if !ok || !strings.Contains(text, after+"\n") {
			t.Fatalf("the identity file has changed its form: %s", data)
		}
		return fmt.Appendf(nil, "%scrc32c %08x\n", text, crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
	})
}

// TestNewerDataDirectory has a directory of a format that no release knows yet.
func TestNewerDataDirectory(t *testing.T) {
	s := stopped(t)
	file := filepath.Join(s.broker.DataDir, identityName)
	restore := reidentify(t, file, "format 1", "format 99")
	wantRefusal(t, s.broker.Command(), exitData, file, "99", "1")
	restore()
	s.startsAgain(t)
}

// TestDataDirectoryOfAnotherLogStore has a directory of a version that kept the Raft log in Pebble.
func TestDataDirectoryOfAnotherLogStore(t *testing.T) {
	s := stopped(t)
	file := filepath.Join(s.broker.DataDir, identityName)
	restore := reidentify(t, file, "log-store wal", "log-store pebble")
	wantRefusal(t, s.broker.Command(), exitData, file, `"pebble"`, `"wal"`)
	restore()
	s.startsAgain(t)
}

// TestCorruptDataDirectory damages the files that every start reads.
func TestCorruptDataDirectory(t *testing.T) {
	s := stopped(t)
	for _, name := range []string{identityName, "boot"} {
		file := filepath.Join(s.broker.DataDir, name)
		for what, change := range map[string]func([]byte) []byte{
			"flipped": flipMiddle,
			"cut":     func(data []byte) []byte { return data[:len(data)/2] },
			"empty":   func([]byte) []byte { return nil },
		} {
			restore := rewrite(t, file, change)
			t.Run(name+" "+what, func(t *testing.T) { wantRefusal(t, s.broker.Command(), exitData, file) })
			restore()
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		t.Run(name+" missing", func(t *testing.T) { wantRefusal(t, s.broker.Command(), exitData, file) })
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.startsAgain(t)
}

func TestForeignDirectory(t *testing.T) {
	harness.NeedProcess(t)
	dir := t.TempDir()
	letter := filepath.Join(dir, "letter.txt")
	if err := os.WriteFile(letter, []byte("not ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := prepared(t, harness.Options{Dir: dir})
	wantRefusal(t, b.Command(), exitData, dir, "letter.txt")
	if data, err := os.ReadFile(letter); err != nil || string(data) != "not ours" {
		t.Errorf("the file of somebody else: %q, %v", data, err)
	}
}

func TestUnknownAndWrongSettings(t *testing.T) {
	harness.NeedProcess(t)
	file := filepath.Join(t.TempDir(), "warren.conf")
	write := func(text string) []string {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"--config", file}
	}
	tests := []struct {
		name  string
		args  []string
		env   []string
		text  string
		code  int
		words []string
	}{
		{name: "a key in the file", text: "# comment\nhartbeat = 30\n", code: exitData, words: []string{file + ":2", "hartbeat", "heartbeat"}},
		{name: "a value in the file", text: "heartbeat = often\n", code: exitData, words: []string{file + ":1", "heartbeat", "often"}},
		{name: "a line in the file", text: "heartbeat\n", code: exitData, words: []string{file + ":1"}},
		{name: "a file that is missing", args: []string{"--config", file + ".missing"}, code: exitData, words: []string{file + ".missing"}},
		{name: "a variable", env: []string{"WARREN_HARTBEAT=30"}, code: exitData, words: []string{"WARREN_HARTBEAT", "WARREN_HEARTBEAT"}},
		{name: "a key with --set", args: []string{"--set", "hartbeat=30"}, code: exitUsage, words: []string{"hartbeat", "heartbeat"}},
		{name: "a value with --set", args: []string{"--set", "heartbeat=often"}, code: exitUsage, words: []string{"heartbeat", "often"}},
		{name: "a flag", args: []string{"--hartbeat", "30"}, code: exitUsage, words: []string{"hartbeat"}},
		{name: "an argument", args: []string{"now"}, code: exitUsage, words: []string{"now"}},
		{name: "an address", args: []string{"--amqp", "banana"}, code: exitUsage, words: []string{"amqp", "banana"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := tt.args
			if tt.text != "" {
				args = write(tt.text)
			}
			b := prepared(t, harness.Options{Args: args, Env: tt.env})
			wantRefusal(t, b.Command(), tt.code, tt.words...)
			if _, err := os.Stat(b.DataDir); err == nil {
				t.Error("the data directory was made all the same")
			}
		})
	}
}

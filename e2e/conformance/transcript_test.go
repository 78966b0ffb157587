package conformance

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warrenmq/warren/e2e/harness"
)

// A transcript is a file of cases. A case is a row of the list of behaviours, what is sent, and what came back:
//
//	== 1.4 basic.consume: tag reuse on channel
//	from: rabbitmq
//	basic.consume queue=q consumer-tag=t
//	----
//	basic.consume-ok consumer-tag=t
//
// What stands behind "from" says where the answers come from: "rabbitmq" was recorded from RabbitMQ 3.10 and is written anew by `make transcripts`;
// "document" is what RabbitMQ 4.3 documents where 3.10 is different, and written by hand; "warren" is Warren's own answer where that is another on
// purpose (docs/compat.md). "pending: WHAT" leaves a case out until Warren has what is named in pendings.
var record = flag.Bool("record", false, "write the answers into the transcripts: of RabbitMQ where it is the broker, else Warren's own")

// runPending plays the cases that are left out, to see which are not needed there any more.
var runPending = flag.Bool("pending", false, "play the pending cases, too")

const (
	fromRabbitMQ = "rabbitmq"
	fromDocument = "document"
	fromWarren   = "warren"
	divider      = "----"
)

type transcriptCase struct {
	file, title, row string
	head             []string // lines before the steps, as they stand
	lines            []string // steps and comments, as they stand
	want             []string
	from, pending    string
	id               int
}

func (c *transcriptCase) steps() (steps []string) {
	for _, l := range c.lines {
		if l != "" && !strings.HasPrefix(l, "#") {
			steps = append(steps, l)
		}
	}
	return steps
}

// text is the case as it stands in its file.
func (c *transcriptCase) text() string {
	lines := slices.Concat([]string{"== " + c.title}, c.head, c.lines, []string{divider}, c.want)
	return strings.Join(lines, "\n") + "\n"
}

// readTranscripts reads all files. lead is what stands before the first case of each.
func readTranscripts(t *testing.T) (cases []*transcriptCase, lead map[string]string) {
	t.Helper()
	paths, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	lead = map[string]string{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split("\n"+string(data), "\n== ")
		lead[path] = strings.TrimLeft(parts[0], "\n")
		for _, part := range parts[1:] {
			c, err := parseCase(part)
			if err != nil {
				t.Fatalf("%s: %v:\n%s", path, err, part)
			}
			c.file, c.id = path, len(cases)
			cases = append(cases, c)
		}
	}
	return cases, lead
}

func parseCase(text string) (*transcriptCase, error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	c := &transcriptCase{title: lines[0]}
	c.row, _, _ = strings.Cut(c.title, " | ")
	lines = lines[1:]
	for ; len(lines) > 0; lines = lines[1:] {
		key, value, ok := strings.Cut(lines[0], ": ")
		switch {
		case ok && key == "from":
			c.from, _, _ = strings.Cut(value, ", ")
		case ok && key == "pending":
			c.pending = value
		default:
			ok = false
		}
		if !ok {
			break
		}
		c.head = append(c.head, lines[0])
	}
	at := slices.Index(lines, divider)
	if at < 0 {
		return nil, fmt.Errorf("no %s", divider)
	}
	c.lines, c.want = lines[:at], lines[at+1:]
	if !slices.Contains([]string{fromRabbitMQ, fromDocument, fromWarren}, c.from) {
		return nil, fmt.Errorf("from %q", c.from)
	}
	return c, nil
}

// TestTranscripts plays every case and compares. With -record, against RabbitMQ, it writes what it hears into the files.
func TestTranscripts(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	b.AwaitHTTP(t)
	if *record {
		wantRecordable(t, b)
	}
	cases, lead := readTranscripts(t)
	var mu sync.Mutex
	t.Run("cases", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.title, func(t *testing.T) {
				t.Parallel()
				switch why, ok := pendings[c.pending]; {
				case c.pending != "" && !ok:
					t.Fatalf("pending: %s stands in no list", c.pending)
				case c.pending != "" && !b.External() && !*runPending:
					t.Skipf("pending: %s", why)
				case c.from != fromRabbitMQ && b.External():
					t.Skip("RabbitMQ 3.10 answers in another way")
				}
				got := play(t, b, c.id, c.steps())
				if *record && (c.from == fromRabbitMQ) == b.External() && c.from != fromDocument {
					mu.Lock()
					c.want = append(got, "")
					mu.Unlock()
					return
				}
				if want := strings.TrimRight(strings.Join(c.want, "\n"), "\n"); strings.Join(got, "\n") != want {
					t.Errorf("%s: from %s\n%s\n%s\ngot\n%s\n\nwant\n%s", c.file, c.from, strings.Join(c.lines, "\n"), divider, strings.Join(got, "\n"), want)
				}
			})
		}
	})
	if *record {
		writeTranscripts(t, cases, lead)
	}
}

// recordedFrom is the version whose answers the transcripts have.
const recordedFrom = "3.10."

// wantRecordable wants the broker to be that RabbitMQ, or Warren for its own answers.
func wantRecordable(t *testing.T, b *harness.Broker) {
	t.Helper()
	if b.External() {
		var overview struct {
			Version string `json:"rabbitmq_version"`
		}
		if b.Get(t, harness.Path("overview"), &overview); !strings.HasPrefix(overview.Version, recordedFrom) {
			t.Fatalf("transcripts are recorded from RabbitMQ %sx; this is %q", recordedFrom, overview.Version)
		}
	}
}

func writeTranscripts(t *testing.T, cases []*transcriptCase, lead map[string]string) {
	t.Helper()
	texts := map[string]string{}
	for _, c := range cases {
		c.want = append(slices.DeleteFunc(c.want, func(l string) bool { return l == "" }), "")
		texts[c.file] += c.text()
	}
	for path, text := range texts {
		text = strings.TrimRight(lead[path]+"\n"+text, "\n") + "\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryRowHasACase holds that no row of the list is forgotten, and no case without a row.
func TestEveryRowHasACase(t *testing.T) {
	cases, _ := readTranscripts(t)
	have := map[string]bool{}
	for _, c := range cases {
		have[c.row] = true
	}
	for row, tests := range elsewhere {
		have[row] = true
		for _, test := range tests {
			folder, name, _ := strings.Cut(test, " ")
			if !hasTest(t, folder, name) {
				t.Errorf("%s: package %s has no %s", row, folder, name)
			}
		}
	}
	rows := map[string]bool{}
	for _, row := range behaviours() {
		rows[row] = true
		if !have[row] {
			t.Errorf("row without a case: %s", row)
		}
	}
	for row := range have {
		if !rows[row] {
			t.Errorf("case without a row: %s", row)
		}
	}
}

// hasTest tells whether the tests of a package of this module have a certain one.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "func "+name+"(t ") {
			return true
		}
	}
	return false
}

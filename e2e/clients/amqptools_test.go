package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warrenmq/warren/e2e/harness"
)

// toolRun runs one of the amqp-tools. To them a URL that ends with a slash names the virtual host "".
func toolRun(t *testing.T, b *harness.Broker, stdin, tool string, args ...string) harness.Result {
	t.Helper()
	cmd := exec.Command(harness.Tool(t, tool), append([]string{"--url=" + strings.TrimSuffix(b.AMQPURL(), "/")}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	r, err := harness.Run(programTimeout, cmd)
	if err != nil {
		t.Fatalf("%s: %v, %v", tool, err, r)
	}
	return r
}

func tool(t *testing.T, b *harness.Broker, stdin, name string, args ...string) string {
	t.Helper()
	r := toolRun(t, b, stdin, name, args...)
	if r.Code != 0 {
		t.Fatalf("%s %q: %v", name, args, r)
	}
	return r.Stdout
}

// amqpTools declares, publishes, gets, consumes and deletes with the command line tools of librabbitmq.
func amqpTools(t *testing.T, b *harness.Broker) {
	const queue = "amqp-tools"
	b.DropQueue(t, queue)
	if got := tool(t, b, "", "amqp-declare-queue", "--durable", "--queue="+queue); strings.TrimSpace(got) != queue {
		t.Errorf("amqp-declare-queue printed %q", got)
	}
	tool(t, b, "", "amqp-publish", "--persistent", "--routing-key="+queue, "--body=first")
	tool(t, b, "second\n", "amqp-publish", "--persistent", "--routing-key="+queue)
	tool(t, b, strings.Join(numbered("line %d", 50), "\n")+"\n", "amqp-publish", "--persistent", "--line-buffered", "--routing-key="+queue)
	b.AwaitCount(t, queue, 52)

	if got := tool(t, b, "", "amqp-get", "--queue="+queue); got != "first" {
		t.Errorf("the first amqp-get printed %q", got)
	}
	if got := tool(t, b, "", "amqp-get", "--queue="+queue); got != "second\n" {
		t.Errorf("the second amqp-get printed %q", got)
	}
	// amqp-consume runs a program for each message; cat copies its body.
	got := tool(t, b, "", "amqp-consume", "--queue="+queue, "--count=50", "--prefetch-count=7", "cat")
	if want := strings.Join(numbered("line %d", 50), ""); strings.ReplaceAll(got, "\n", "") != want {
		t.Errorf("amqp-consume printed %q", got)
	}
	b.AwaitCount(t, queue, 0)
	if r := toolRun(t, b, "", "amqp-get", "--queue="+queue); r.Code != 2 || r.Stdout != "" {
		t.Errorf("amqp-get of an empty queue: %v", r)
	}

	tool(t, b, "", "amqp-publish", "--persistent", "--routing-key="+queue, "--body=left")
	if got := tool(t, b, "", "amqp-delete-queue", "--queue="+queue); strings.TrimSpace(got) != "1" {
		t.Errorf("amqp-delete-queue printed %q messages, want 1", got)
	}
	r := toolRun(t, b, "", "amqp-get", "--queue="+queue)
	if r.Code == 0 || !strings.Contains(r.Stderr, "404") || !strings.Contains(r.Stderr, "no queue '"+queue+"' in vhost '/'") {
		t.Errorf("amqp-get of a deleted queue: %v", r)
	}
}

// linesCount is the length of the file of TestLinesOfAFile.
const linesCount = 100_000

// TestLinesOfAFile sends a text file through a durable queue, a message per line, with amqpctl and a worker of ten lines of pika.
func TestLinesOfAFile(t *testing.T) {
	b := harness.StartOrExternal(t, harness.Options{})
	amqpctl, err := harness.ControlBinary()
	if err != nil {
		t.Fatal(err)
	}
	python := harness.Python(t)
	b.FreshQueue(t, "lines", harness.Classic)
	dir := t.TempDir()
	input := filepath.Join(dir, "input.txt")
	var text []byte
	for i := range linesCount {
		text = fmt.Appendf(text, "%06d äöü %s\n", i, strings.Repeat("x", i%80))
	}
	if err := os.WriteFile(input, text, 0o600); err != nil {
		t.Fatal(err)
	}

	file, err := os.Open(input)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	publish := exec.Command(amqpctl, "--url", b.HTTPURL(), "--amqp-url", b.AMQPURL(), "publish", "lines", "--lines")
	publish.Stdin = file
	r, err := harness.Run(2*programTimeout, publish)
	if err != nil || r.Code != 0 {
		t.Fatalf("amqpctl publish: %v, %v", err, r)
	}
	t.Logf("published %d lines in %v", linesCount, r.Took)
	b.AwaitCount(t, "lines", linesCount)

	worker := exec.Command(python, filepath.Join("python", "lines_worker.py"), "lines", fmt.Sprint(linesCount))
	worker.Env = append(os.Environ(), "AMQP_URL="+b.AMQPURL())
	r, err = harness.Run(2*programTimeout, worker)
	if err != nil || r.Code != 0 {
		t.Fatalf("the worker: %v, code %d, stderr %s", err, r.Code, r.Stderr)
	}
	t.Logf("consumed %d lines in %v", linesCount, r.Took)
	wantSameLines(t, r.Stdout, string(text))
	b.AwaitCount(t, "lines", 0)
}

// wantSameLines shows the first difference only: a hundred thousand lines are no help.
func wantSameLines(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			at := slices.Index(gotLines, wantLines[i])
			t.Fatalf("%d lines of %d; line %d is %q instead of %q (which is line %d)", len(gotLines), len(wantLines), i+1, gotLines[i], wantLines[i], at+1)
		}
	}
	t.Fatalf("%d lines came of %d", len(gotLines)-1, len(wantLines)-1)
}

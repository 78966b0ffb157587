package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
)

// TestAgainstBroker runs every command against a real broker, when WARREN_TEST_AMQP_URL and WARREN_TEST_HTTP_URL name one. What the commands
// print is compared as far as it does not depend on the broker.
func TestAgainstBroker(t *testing.T) {
	amqpURL, httpURL := os.Getenv("WARREN_TEST_AMQP_URL"), os.Getenv("WARREN_TEST_HTTP_URL")
	if amqpURL == "" || httpURL == "" {
		t.Skip("WARREN_TEST_AMQP_URL and WARREN_TEST_HTTP_URL name no broker")
	}
	queue := fmt.Sprintf("amqpctl test/%08x %%", rand.Uint32())
	cli := func(want exit.Code, input string, args ...string) (string, string) {
		t.Helper()
		var out, err bytes.Buffer
		args = append([]string{"--url", httpURL, "--amqp-url", amqpURL}, args...)
		if code := run(t.Context(), args, streams{in: strings.NewReader(input), out: &out, err: &err}); code != want {
			t.Errorf("%q: code %d, want %d\n%s%s", args[4:], code, want, out.String(), err.String())
		}
		return out.String(), err.String()
	}
	defer cli(exit.Data, "", "queue", "get", queue)
	defer cli(exit.OK, "", "queue", "delete", queue)
	for _, kind := range []string{"classic", "quorum"} {
		cli(exit.OK, "", "queue", "declare", queue, "--type", kind)
		cli(exit.OK, "", "queue", "declare", queue, "--type", kind)
		if _, err := cli(exit.Data, "", "queue", "declare", queue, "--type", kind, "--arg", "x-max-length=5"); !strings.Contains(err, "inequivalent arg 'x-max-length'") {
			t.Errorf("redeclare: %s", err)
		}
		if out, _ := cli(exit.OK, "", "queue", "get", queue, "-o", "json"); !strings.Contains(out, `"durable": true`) {
			t.Errorf("get: %s", out)
		}
		if out, _ := cli(exit.OK, "", "queue", "ls", "--no-headers"); !strings.Contains(out, queue) {
			t.Errorf("ls: %s", out)
		}
		var lines strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&lines, "line %d\n", i)
		}
		cli(exit.OK, lines.String(), "publish", queue, "--lines", "--quiet")
		first, _ := cli(exit.OK, "", "consume", queue, "--count", "1000", "--quiet")
		rest, _ := cli(exit.OK, "", "consume", queue, "--until-empty", "--quiet")
		if first+rest != lines.String() {
			t.Errorf("%s: %d and %d bytes came back, not the %d published in order", kind, len(first), len(rest), lines.Len())
		}
		cli(exit.OK, "", "publish", queue, "-d", "x", "--count", "7")
		if out, _ := cli(exit.OK, "", "queue", "purge", queue, "--quiet"); out != "7\n" {
			t.Errorf("purge printed %q", out)
		}
		if kind == "classic" {
			cli(exit.OK, "", "queue", "delete", queue)
		}
	}
	cli(exit.Data, "", "publish", queue+"?", "-d", "x")
	cli(exit.Data, "", "consume", queue+"?")
	cli(exit.OK, "", "status")
	if out, _ := cli(exit.OK, "", "bench", "-C", "2000", "--quiet"); !strings.Contains(out, "consumed 2,000, not consumed 0, duplicates 0") {
		t.Errorf("bench: %s", out)
	}
}

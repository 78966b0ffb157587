package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

// runUntil runs a command that does not end by itself until its output satisfies stop.
func (w *world) runUntil(stop func(out string) bool, args ...string) (out, err string, code exit.Code) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code = run(ctx, args, streams{in: strings.NewReader(""), out: writerFunc(func(p []byte) {
		stdout.Write(p)
		if stop(stdout.String()) {
			cancel()
		}
	}), err: &stderr})
	return stdout.String(), stderr.String(), code
}

// Without a terminal --watch repeats the table, an empty line between two; what fails on the way is said and tried again.
func TestWatchRepeatsTables(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	var asked atomic.Int64
	w.hook = func(rw http.ResponseWriter, _ *http.Request) bool {
		n := asked.Add(1)
		if n == 2 {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		fmt.Fprintf(rw, `[{"name":"q%d"}]`, n)
		return true
	}
	three := func(out string) bool { return strings.Contains(out, "q4") }
	out, err, code := w.runUntil(three, "queue", "ls", "--columns", "name", "--watch=100ms")
	host := strings.TrimPrefix(w.http.URL, "http://")
	if code != exit.Interrupted || out != "name\nq1\n\nname\nq3\n\nname\nq4\n" || err != "amqpctl: management API "+host+": Service Unavailable (HTTP 503)\n" {
		t.Errorf("code %d, %q, %q", code, out, err)
	}
	asked.Store(2)
	out, err, code = w.runUntil(three, "queue", "ls", "-o", "jsonl", "--watch=100ms")
	if code != exit.Interrupted || out != "{\"name\":\"q3\"}\n{\"name\":\"q4\"}\n" || err != "" {
		t.Errorf("jsonl: code %d, %q, %q", code, out, err)
	}
	asked.Store(1)
	if out, _, code = w.runUntil(three, "queue", "ls", "--watch"); code != exit.Unavailable || out != "" {
		t.Errorf("fails the first time: code %d, %q", code, out)
	}
}

func TestQueueWatch(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	var asked atomic.Int64
	w.hook = func(rw http.ResponseWriter, _ *http.Request) bool {
		switch n := asked.Add(1); n {
		case 3:
			fmt.Fprint(rw, `{"name":"q","messages":1}`) // the counters began anew
		case 4:
			return false
		default:
			fmt.Fprintf(rw, `{"name":"q","messages_ready":%d,"messages_unacknowledged":2,"messages":9,"consumers":1,
			 "message_stats":{"publish":%d,"publish_details":{"rate":8.5},"ack_details":{"rate":1}}}`, n, n*1_000_000)
		}
		return true
	}
	out, err, code := w.runUntil(func(string) bool { return false }, "queue", "watch", "q", "-i", "100ms")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if code != exit.Data || err != "amqpctl: queue \"q\" in vhost \"/\": Not Found (HTTP 404)\n" || len(lines) != 4 {
		t.Fatalf("code %d, %q\n%s", code, err, out)
	}
	if fields := strings.Fields(lines[0]); fmt.Sprint(fields) != "[TIME READY UNACKED TOTAL CONSUMERS IN/S OUT/S ACK/S REDELIVER/S]" {
		t.Errorf("headings %q", fields)
	}
	// The first line has the broker's rate, the second what happened since: a million in about a tenth of a second.
	if f := strings.Fields(lines[1]); fmt.Sprint(f[1:]) != "[1 2 9 1 8.5 0 1.0 0]" {
		t.Errorf("first line %q", f)
	}
	var perSecond float64
	if f := strings.Fields(lines[2]); fmt.Sprint(f[1:5]) != "[2 2 9 1]" {
		t.Errorf("second line %q", f)
	} else if fmt.Sscan(f[5], &perSecond); perSecond < 1000 || perSecond > 11_000_000 {
		t.Errorf("%s per second", f[5])
	}
	if f := strings.Fields(lines[3]); fmt.Sprint(f[1:]) != "[- - 1 - 0 0 0 0]" {
		t.Errorf("third line %q", f)
	}
}

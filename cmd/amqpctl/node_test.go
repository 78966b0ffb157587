package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
	"github.com/warrenmq/warren/cmd/amqpctl/internal/fakebroker"
)

func TestNodeLimits(t *testing.T) {
	w := newWorld(t, fakebroker.Config{})
	w.answers["PUT /api/nodes/rabbit@one/limits"] = answer{204, ""}
	w.answers["PUT /api/nodes/rabbit@two/limits"] = answer{400, `{"error":"bad_request","reason":"\"x\" is not a fraction"}`}
	w.want("node set-memory-watermark rabbit@one --relative 0.4", exit.OK, "", "changed node \"rabbit@one\"\n")
	w.want("node set-disk-limit rabbit@one --absolute 2GB", exit.OK, "", "changed node \"rabbit@one\"\n")
	if out, err, code := w.run("", "node", "set-disk-limit", "rabbit@two", "--relative", "x"); code == exit.OK || out != "" || !strings.Contains(err, `"x" is not a fraction`) {
		t.Errorf("code %d, out %q, err %q", code, out, err)
	}
	for _, want := range []string{
		`PUT /api/nodes/rabbit@one/limits {"vm_memory_high_watermark.relative":"0.4"}`, `PUT /api/nodes/rabbit@one/limits {"disk_free_limit.absolute":"2GB"}`,
	} {
		if !slices.Contains(w.seen, want) {
			t.Errorf("%q is not among %q", want, w.seen)
		}
	}
	for args, want := range map[string]string{
		"node set-disk-limit --relative 1":                                    "the name of a node is missing",
		"node set-disk-limit rabbit@one":                                      "one of --relative and --absolute is needed",
		"node set-memory-watermark rabbit@one --relative 0.4 --absolute 5MiB": "one of --relative and --absolute is needed",
	} {
		if _, err, code := w.run("", strings.Fields(args)...); code != exit.Usage || !strings.Contains(err, want) {
			t.Errorf("%s: code %d, %q", args, code, err)
		}
	}
}

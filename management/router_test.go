package management

import (
	"net/http"
	"strings"
	"testing"
)

func TestRouter(t *testing.T) {
	n := &node{}
	for _, path := range []string{"queues", "queues/{a}", "queues/{a}/{b}", "queues/{a}/{b}/get", "queues/detailed", "connections/{a}", "connections/username/{a}", "{a}/fixed/{b}/x"} {
		n.add(&operation{method: http.MethodGet, path: path})
		n.add(&operation{method: http.MethodDelete, path: path})
	}
	for path, want := range map[string]string{
		"/queues": "", "/queues/": "", "/queues/%2F": "/", "/queues/%2f/": "/", "/queues/%2F/q": "/|q", "/queues/a/b%2Fc": "a|b/c", "/queues/a/get/get": "a|get",
		"/queues/detailed": "", "/queues/detailed/q": "detailed|q", "/queues/a+b": "a+b", "/queues/%64etailed": "", "/connections/username": "username",
		"/connections/username/u": "u", "/a/fixed/b/x": "a|b", "/queues/..": "..", "/queues/%00": "\x00",
		// What names nothing.
		"": "-", "/": "-", "//": "-", "//queues": "-", "/queues//": "-", "/queues//q": "-", "/nope": "-", "/queues/a/b/c": "-", "/queues/a/b/get/": "a|b", "/queues/%zz": "-",
		"/a/fixed/b": "-", "/" + strings.Repeat("a/", 100): "-",
	} {
		var params [paramsMax]string
		got := "-"
		if n.find(path, &params) != nil {
			got = strings.TrimRight(strings.Join(params[:], "|"), "|")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	var params [paramsMax]string
	if allow := n.find("/queues", &params).allow(); allow != "HEAD, GET, DELETE, OPTIONS" {
		t.Error("allow is", allow)
	}
}

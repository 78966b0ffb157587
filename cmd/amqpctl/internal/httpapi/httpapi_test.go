package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/warrenmq/warren/cmd/amqpctl/internal/exit"
)

func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := New(strings.Replace(server.URL, "http://", "http://me:p%40ss@", 1), 5*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Every name, whatever it contains, must reach the server as one escaped segment, unchanged on its way.
func TestPathsReachTheServerUnchanged(t *testing.T) {
	for _, c := range []struct{ vhost, name, want string }{
		{"/", "orders", "/api/queues/%2F/orders"},
		{"a/b", "c d", "/api/queues/a%2Fb/c%20d"},
		{"v", "100%", "/api/queues/v/100%25"},
		{"v", "a+b?c#d&e=f", "/api/queues/v/a+b%3Fc%23d&e=f"},
		{"v", "..", "/api/queues/v/%2E%2E"},
		{"v", ".", "/api/queues/v/%2E"},
		{"v", "a%2Fb", "/api/queues/v/a%252Fb"},
		{"v", "grün\n", "/api/queues/v/gr%C3%BCn%0A"},
		{"v", "amq.gen-x:1 -> 2", "/api/queues/v/amq.gen-x:1%20-%3E%202"},
	} {
		var got string
		client := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r.RequestURI; fmt.Fprint(w, "{}") })
		if _, err := client.Get(t.Context(), Path("queues", c.vhost, c.name), nil); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("vhost %q, name %q: server saw %s, want %s", c.vhost, c.name, got, c.want)
		}
		if segment, err := url.PathUnescape(got[strings.LastIndex(got, "/")+1:]); err != nil || segment != c.name {
			t.Errorf("name %q reads back as %q", c.name, segment)
		}
	}
}

func TestBaseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"http://h:15672": "http://h:15672", "http://h:15672/": "http://h:15672", "http://h/api": "http://h", "https://h/rabbit/api/": "https://h/rabbit", "http://h/x/": "http://h/x",
	} {
		c, err := New(raw, time.Second, nil)
		if err != nil || c.base.String() != want {
			t.Errorf("%s: %v, %v", raw, c.base, err)
		}
	}
	for _, raw := range []string{"", "localhost:15672", "ftp://h", "http://", "amqp://h", "http://u:se#cret@h"} {
		_, err := New(raw, time.Second, nil)
		if exit.Of(err) != exit.Config || strings.Contains(err.Error(), "cret") {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestStatusAndReason(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		who    int // status of /whoami
		code   exit.Code
		reason string
	}{
		{404, `{"error":"Object Not Found","reason":"Not Found"}`, 200, exit.Data, "Not Found (HTTP 404)"},
		{400, `{"error":"bad_request","reason":"inequivalent arg\n'x'"}`, 200, exit.Data, "inequivalent arg 'x' (HTTP 400)"},
		{401, `{"error":"not_authorized","reason":"Login failed"}`, 401, exit.Auth, "Login failed (HTTP 401)"},
		{401, `{"error":"not_authorised","reason":"User not authorised to access virtual host"}`, 200, exit.Denied, "User not authorised to access virtual host (HTTP 401)"},
		{403, ``, 200, exit.Denied, "Forbidden (HTTP 403)"},
		{412, `{"error":"precondition_failed"}`, 200, exit.Data, "precondition_failed (HTTP 412)"},
		{405, `{"error":"method_not_allowed"}`, 200, exit.Data, "method_not_allowed"},
		{429, ``, 200, exit.Timeout, "Too Many Requests"},
		{500, `<html>boom</html>`, 200, exit.Internal, "Internal Server Error"},
		{502, `upstream gone`, 200, exit.Unavailable, "upstream gone (HTTP 502)"},
		{503, `{"status":"failed","reason":"no quorum"}`, 200, exit.Unavailable, "no quorum (HTTP 503)"},
		{504, ``, 200, exit.Timeout, "Gateway Timeout"},
	} {
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/whoami" {
				w.WriteHeader(c.who)
				return
			}
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		_, err := client.Get(t.Context(), Path("overview"), nil)
		if exit.Of(err) != c.code || !strings.Contains(exit.Text(err), c.reason) {
			t.Errorf("%d %s: code %d, %v; want %d, %s", c.status, c.body, exit.Of(err), err, c.code, c.reason)
		}
	}
}

func TestTransportFailures(t *testing.T) {
	block := make(chan struct{})
	silent := serve(t, func(http.ResponseWriter, *http.Request) { <-block })
	defer close(block)
	silent.http.Timeout = 50 * time.Millisecond
	_, err := silent.Get(t.Context(), "/x", nil)
	if exit.Of(err) != exit.Timeout || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("silent server: %v", err)
	}
	nobody, err := New("http://127.0.0.1:1", time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nobody.Get(t.Context(), "/x", nil); exit.Of(err) != exit.Unavailable || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v", err)
	}
	hangup := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			fmt.Fprint(conn, "AMQP\x00\x00\x09\x01")
			conn.Close()
		}
	})
	if _, err := hangup.Get(t.Context(), "/x", nil); exit.Of(err) != exit.Unavailable || !strings.Contains(err.Error(), "is it the AMQP port?") {
		t.Errorf("no HTTP server: %v", err)
	}
}

func TestPutAndDelete(t *testing.T) {
	var seen []string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		var body any
		_ = json.NewDecoder(r.Body).Decode(&body)
		seen = append(seen, fmt.Sprint(r.Method, " ", r.RequestURI, " ", user, ":", password, " ", r.Header.Get("Content-Type"), " ", body))
		w.WriteHeader(map[bool]int{true: http.StatusCreated, false: http.StatusNoContent}[len(seen) == 1])
	})
	for _, want := range []bool{true, false} {
		created, err := client.Put(t.Context(), Path("queues", "/", "q"), map[string]any{"durable": true})
		if err != nil || created != want {
			t.Errorf("created %v, %v; want %v", created, err, want)
		}
	}
	if err := client.Delete(t.Context(), Path("queues", "/", "q"), url.Values{"if-empty": {"true"}}); err != nil {
		t.Error(err)
	}
	put := "PUT /api/queues/%2F/q me:p@ss application/json map[durable:true]"
	if want := []string{put, put, "DELETE /api/queues/%2F/q?if-empty=true me:p@ss  <nil>"}; fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", seen, want)
	}
}

// pages serves a list of n numbers in pages, as RabbitMQ does.
func pages(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var page, size int
		fmt.Sscan(r.URL.Query().Get("page"), &page)
		fmt.Sscan(r.URL.Query().Get("page_size"), &size)
		count := (n + size - 1) / size
		if page > max(count, 1) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"page_out_of_range","reason":"x"}`)
			return
		}
		items := []int{}
		for i := (page - 1) * size; i < min(page*size, n); i++ {
			items = append(items, i)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"items": items, "page": page, "page_count": count})
	}
}

func TestListReadsEveryPage(t *testing.T) {
	for _, n := range []int{0, 1, 500, 501, 1234} {
		client := serve(t, pages(n))
		next := 0
		err := client.List(t.Context(), Path("queues"), url.Values{"sort": {"name"}}, func(items []json.RawMessage) error {
			for _, item := range items {
				if string(item) != fmt.Sprint(next) {
					t.Fatalf("got %s, want %d", item, next)
				}
				next++
			}
			return nil
		})
		if err != nil || next != n {
			t.Errorf("%d of %d items, %v", next, n, err)
		}
	}
}

// A list that shrinks while it is read, and a server without paging, are no errors; a failing first page is.
func TestListOddities(t *testing.T) {
	shrinking := pages(600)
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		shrinking(w, r)
		shrinking = pages(400)
	})
	n := 0
	count := func(items []json.RawMessage) error { n += len(items); return nil }
	if err := client.List(t.Context(), "/queues", nil, count); err != nil || n != 500 {
		t.Errorf("shrinking: %d items, %v", n, err)
	}
	n = 0
	client = serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[1,2,3]") })
	if err := client.List(t.Context(), "/queues", nil, count); err != nil || n != 3 {
		t.Errorf("unpaged: %d items, %v", n, err)
	}
	for _, answer := range []string{"nonsense", `"text"`} {
		client = serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })
		if err := client.List(t.Context(), "/queues", nil, count); exit.Of(err) != exit.Internal {
			t.Errorf("%s: %v", answer, err)
		}
	}
	client = serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
	if err := client.List(t.Context(), "/queues", nil, count); exit.Of(err) != exit.Data {
		t.Errorf("bad request: %v", err)
	}
}

func TestObject(t *testing.T) {
	o, err := Decode([]byte(`{"name":"q","n":12345678901234567,"r":1.5,"b":true,"nil":null,"empty":[],"list":["a",1,"b"],"objects":[{"x":1},2],
		"stats":{"publish_details":{"rate":2.5}},"a.b":7,"args":{"z":1,"a":"x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if rate, ok := o.Float("stats.publish_details.rate"); !ok || rate != 2.5 {
		t.Errorf("rate %v %v", rate, ok)
	}
	if _, ok := o.Float("empty.publish_details.rate"); ok {
		t.Error("a number inside an empty list")
	}
	if o.Int("n") != 12345678901234567 || o.Int("name") != 0 || o.Int("a.b") != 7 || !o.Bool("b") || o.Bool("name") {
		t.Errorf("values of %v", o)
	}
	for name, want := range map[string]string{"name": "q", "n": "12345678901234567", "r": "1.5", "nil": "", "gone": "", "args": `{"a":"x","z":1}`, "empty": "[]"} {
		if got := o.Text(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if fmt.Sprint(o.Strings("list")) != "[a b]" || len(o.List("objects")) != 1 {
		t.Errorf("lists %v %v", o.Strings("list"), o.List("objects"))
	}
	if _, err := Decode([]byte("<html>")); exit.Of(err) != exit.Internal {
		t.Errorf("no JSON: %v", err)
	}
}

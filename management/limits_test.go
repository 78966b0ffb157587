package management

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warrenmq/warren/config/limits"
	"github.com/warrenmq/warren/meta"
	"github.com/warrenmq/warren/quorum"
)

// want checks status and a part of the body.
func (f *fixture) want(w *httptest.ResponseRecorder, status int, part string) {
	f.t.Helper()
	if w.Code != status || !strings.Contains(w.Body.String(), part) {
		f.t.Fatalf("%d %.300s, want %d ... %s", w.Code, w.Body, status, part)
	}
}

// endless is a body without an end; taken counts what was read of it.
type endless struct{ taken int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.taken += len(b)
	return len(b), nil
}

func TestBodyLimit(t *testing.T) {
	f := newFixture(t)
	body := new(endless)
	w := f.do("guest", http.MethodPut, "/api/queues/a/q", "", func(r *http.Request) { r.Body = io.NopCloser(body) })
	f.want(w, http.StatusRequestEntityTooLarge, "larger than 20000000 bytes")
	if body.taken > limits.HTTPBodyBytesMax+1<<20 {
		t.Errorf("%d bytes were read", body.taken)
	}
	// Without a login nothing is read.
	body.taken = 0
	f.want(f.do("nobody", http.MethodPut, "/api/queues/a/q", "", func(r *http.Request) { r.Body = io.NopCloser(body) }), http.StatusUnauthorized, "Login failed")
	if body.taken != 0 {
		t.Errorf("%d bytes of a stranger were read", body.taken)
	}
	f.want(f.do("guest", http.MethodPut, "/api/queues/a/q", "", func(r *http.Request) { r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), broken{})) }), 400, "ended early")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestDeepAndWideJSON(t *testing.T) {
	f := newFixture(t)
	deep := strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000)
	f.want(f.do("guest", http.MethodPut, "/api/queues/a/q", deep), 400, "not_json")
	deep = strings.Repeat(`[`, 500) + strings.Repeat("]", 500)
	f.want(f.do("guest", http.MethodPut, "/api/queues/a/q", `{"arguments":{"a":`+deep+`}}`), 400, "nested deeper than 16")
	wide := strings.Repeat("1,", limits.TableEntriesMax) + "1"
	f.want(f.do("guest", http.MethodPut, "/api/queues/a/q", `{"arguments":{"a":[`+wide+`]}}`), 400, "more than 16384 entries")
	f.want(f.do("guest", http.MethodPut, "/api/queues/a/q", `{"arguments":{"`+strings.Repeat("k", 256)+`":1}}`), 400, "longer than 255")
	f.want(f.do("guest", http.MethodPut, "/api/queues/a/q", "\xff"), 400, "not_json")
	f.want(f.do("guest", http.MethodPut, "/api/queues/a/"+strings.Repeat("q", 256), ""), 400, "queue should be at most 255 bytes")
	f.want(f.do("guest", http.MethodGet, "/api/queues/a?columns="+strings.Repeat("c,", 1000), ""), 400, "columns has more than 256")
	f.want(f.do("guest", http.MethodGet, "/api/queues/a?page=1&use_regex=true&name="+strings.Repeat("a", 2000), ""), 400, "Pagination parameters are invalid")
	f.want(f.do("guest", http.MethodGet, "/api/queues/a?sort="+strings.Repeat("a.", 20), ""), 400, "sort is too long")
}

// TestPanicIsContained: a bug in a handler ends its request and nothing else.
func TestPanicIsContained(t *testing.T) {
	var log bytes.Buffer
	f := newFixture(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	f.broker.boom = true
	f.want(f.do("guest", http.MethodGet, "/api/consumers", ""), 500, "internal_server_error")
	if !strings.Contains(log.String(), "planted") {
		t.Error("the log does not say why:", log.String())
	}
	f.broker.boom = false
	f.want(f.do("guest", http.MethodGet, "/api/consumers", ""), 200, "[]")
}

// TestHostFailures: what the node cannot do now is 503, with a reason, and never 500.
func TestHostFailures(t *testing.T) {
	f := newFixture(t)
	f.declare("a", "q")
	for _, c := range []struct {
		err    error
		status int
		part   string
	}{
		{quorum.ErrNoCatalogue, 503, "the catalogue does not answer"}, {quorum.ErrClosed, 503, "the node is stopping"}, {t.Context().Err(), 204, ""},
		{quorum.ErrNoQueue, 404, "Not Found"}, {errors.New("secret detail"), 500, "see the log"},
	} {
		f.host.failure = c.err
		w := f.do("guest", http.MethodDelete, "/api/queues/a/q", "")
		f.want(w, c.status, c.part)
		if strings.Contains(w.Body.String(), "secret") {
			t.Error("a detail of the node came out:", w.Body)
		}
		f.host.failure = nil
		f.declare("a", "q")
	}
}

// TestCutOffNodeSaysMissing: a node that has no lease may not know what another one was told of. A change waits until it has one, and is refused with the reason if that takes long; what it may do alone it does.
func TestCutOffNodeSaysMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.host.cutOff.Store(true)
		began := time.Now()
		f.want(f.do("guest", http.MethodDelete, "/api/queues/a/q", ""), 503, "does not hear the leader of the catalogue")
		if d := time.Since(began); d < 2*time.Second || d > 10*time.Second {
			t.Error("it waited", d)
		}
		f.want(f.do("guest", http.MethodGet, "/api/overview", ""), 200, "")
		began = time.Now()
		f.want(f.do("guest", http.MethodDelete, "/api/queues/a/q", "", func(r *http.Request) { r.SetBasicAuth("guest", "wrong") }), 401, "Login failed")
		f.want(f.do("-", http.MethodDelete, "/api/queues/a/q", ""), 401, "")
		if d := time.Since(began); d > 0 {
			t.Error("who is not let in waited", d)
		}
		f.connect([]string{"c", "guest", "a"})
		f.want(f.do("guest", http.MethodDelete, "/api/connections/c", ""), 204, "")
		time.AfterFunc(time.Second, func() {
			f.declare("a", "q") // it hears of it, and has a lease
			f.host.cutOff.Store(false)
		})
		f.want(f.do("guest", http.MethodDelete, "/api/queues/a/q", ""), 204, "")
		f.host.cutOff.Store(true)
		time.AfterFunc(time.Second, func() {
			f.host.apply(meta.Command{Op: meta.OpDeleteUser, User: meta.User{Name: "guest"}}) // elsewhere
			f.host.cutOff.Store(false)
		})
		f.want(f.do("guest", http.MethodPut, "/api/queues/a/q", "{}"), 401, "Login failed")
	})
}

// TestCrossOrigin: a page of another site cannot use the login that a browser remembers.
func TestCrossOrigin(t *testing.T) {
	f := newFixture(t)
	f.declare("a", "q")
	evil := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	f.want(f.do("guest", http.MethodDelete, "/api/queues/a/q", "", evil), http.StatusForbidden, "cross-origin")
	f.want(f.do("guest", http.MethodDelete, "/api/queues/a/q", "", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }), http.StatusForbidden, "cross-origin")
	f.want(f.do("guest", http.MethodGet, "/api/queues/a/q", "", evil), http.StatusOK, `"name":"q"`)
	f.want(f.do("guest", http.MethodDelete, "/api/queues/a/q", "", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }), http.StatusNoContent, "")
}

// TestReasonHeader: what a client wants to say to another one is data.
func TestReasonHeader(t *testing.T) {
	f := newFixture(t)
	f.connect([]string{"c", "guest", "a"})
	for reason, want := range map[string]string{"maintenance %s %d": "maintenance %s %d", strings.Repeat("é", 200): strings.Repeat("é", 100), "\xff": "?"} {
		f.broker.closed = nil
		f.want(f.do("guest", http.MethodDelete, "/api/connections/c", "", func(r *http.Request) { r.Header["X-Reason"] = []string{reason} }), 204, "")
		if len(f.broker.closed) != 1 || f.broker.closed[0] != "c: "+want {
			t.Errorf("%q became %q", reason, f.broker.closed)
		}
	}
}

// TestServerLimits: the server cuts off what does not end, and answers HEAD without a body.
func TestServerLimits(t *testing.T) {
	f := newFixture(t)
	web := httptest.NewUnstartedServer(nil)
	web.Config = NewHTTPServer(f.handler, slog.New(slog.DiscardHandler))
	web.Start()
	t.Cleanup(web.Close)
	if c := web.Config; c.ReadHeaderTimeout == 0 || c.ReadTimeout == 0 || c.IdleTimeout == 0 || c.WriteTimeout == 0 {
		t.Error("a time has no limit")
	}
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, "GET /api/overview HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	}()
	answer := make([]byte, 64)
	n, err := io.ReadAtLeast(conn, answer, 20)
	if err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 431") {
		t.Errorf("a header of 64 KiB: %q %v", answer[:n], err)
	}
	r, _ := http.NewRequest(http.MethodHead, web.URL+"/api/queues/a", nil)
	r.SetBasicAuth("guest", password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || resp.ContentLength != 2 || len(body) != 0 || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("HEAD: %d, length %d, body %q, header %v", resp.StatusCode, resp.ContentLength, body, resp.Header)
	}
}

// FuzzRequest: no input makes a handler fail by a bug.
func FuzzRequest(f *testing.F) {
	for _, s := range [...][4]string{
		{"GET", "queues/a?page=1&sort=name&columns=a.b", "", "guest"}, {"PUT", "queues/a/q", `{"arguments":{"a":[1,{"b":2}]},"durable":true}`, "guest"},
		{"POST", "exchanges/a/amq.default/publish", `{"routing_key":"q","payload":"a","payload_encoding":"base64","properties":{"headers":{"a":1},"priority":1}}`, "mgt"},
		{"POST", "queues/a/q/get", `{"ackmode":"ack_requeue_true","count":1,"encoding":"auto","truncate":5}`, "guest"}, {"DELETE", "bindings/a/e/x/q/q/~", "", "admin"},
		{"PUT", "vhosts/x", `{"tags":["a"],"description":null}`, "admin"}, {"PUT", "users/x", `{"tags":"a","password_hash":"AAAA"}`, "guest"}, {"POST", "bindings/a/e/amq.topic/e/amq.fanout", `{}`, "guest"},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	fix := newFixture(f)
	fix.declare("a", "q")
	f.Fuzz(func(t *testing.T, method, path, body, user string) {
		r, err := http.NewRequest(method, "http://x/api/"+path, strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		r.RemoteAddr = "127.0.0.1:1"
		r.SetBasicAuth(user, password)
		w := httptest.NewRecorder()
		fix.handler.ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError {
			t.Fatalf("%s %s %s: %s", method, path, body, w.Body)
		}
	})
}

// FuzzQuery: any query of a list is answered with JSON, of a page with at most as many items as it may have, or refused as a bad request.
func FuzzQuery(f *testing.F) {
	for _, query := range []string{
		"", "page=1", "page=1&page_size=2&name=q&use_regex=false", "page=2&page_size=500", "page=1&name=%5Eq.*%5B&use_regex=true", "page=1&use_regex=true&name=((a%7B1,1000%7D)%7B1,1000%7D)",
		"sort=messages_ready&sort_reverse=true", "sort=a.b.c.d.e.f.g.h.i", "columns=name,arguments.a,arguments", "columns=" + strings.Repeat("a.", 300), "page=-1&page_size=0",
		"page=99999999999999999999&page_size=+1", "lengths_age=60&lengths_incr=5", "msg_rates_age=600&msg_rates_incr=0", "lengths_age=-1&lengths_incr=99999999999999999999", "disable_stats=true&enable_queue_totals=true",
		"%zz&;=", "page=1&page=2", "columns",
	} {
		f.Add(query)
	}
	fix := newFixture(f)
	for _, name := range []string{"q1", "q2", "other"} {
		fix.declare("a", name)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r, err := http.NewRequest(http.MethodGet, "http://x/api/queues", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.RawQuery, r.RemoteAddr = query, "127.0.0.1:1"
		r.SetBasicAuth("guest", password)
		w := httptest.NewRecorder()
		fix.handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
			t.Fatalf("%q: %d %s", query, w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%q: no JSON: %s", query, w.Body)
		}
		var page struct {
			Items    []json.RawMessage `json:"items"`
			PageSize int               `json:"page_size"`
		}
		if w.Code == http.StatusOK && w.Body.Bytes()[0] == '{' {
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.PageSize > limits.PageItemsMax || len(page.Items) > page.PageSize {
				t.Fatalf("%q: %v, %d items, page_size %d", query, err, len(page.Items), page.PageSize)
			}
		}
	})
}

func TestPageSizeLimit(t *testing.T) {
	f := newFixture(t)
	f.want(f.do("guest", http.MethodGet, "/api/queues?page=1&page_size=500", ""), 200, `"page_size":500`)
	f.want(f.do("guest", http.MethodGet, "/api/queues?page=1&page_size=501", ""), 400,
		`{"error":"invalid_pagination_parameters","reason":"Invalid pagination parameters: page number 1, page size 501"}`)
}

func TestCompressedRequestsAreRefused(t *testing.T) {
	f := newFixture(t)
	coded := func(coding string) *httptest.ResponseRecorder {
		return f.do("guest", http.MethodPut, "/api/queues/a/compressed", `{}`, func(r *http.Request) { r.Header.Set("Content-Encoding", coding) })
	}
	f.want(coded("gzip"), 415, `{"error":"unsupported_media_type","reason":"a request's body must not be compressed"}`)
	f.want(coded("identity"), 201, "")
}

// TestHeavyRequests: beyond the limit lists and messages are refused, other requests are not.
func TestHeavyRequests(t *testing.T) {
	f := newFixture(t)
	for range limits.HTTPHeavyMax {
		f.s.heavy <- struct{}{}
	}
	for _, path := range []string{"/api/queues", "/api/connections", "/api/bindings"} {
		w := f.do("guest", http.MethodGet, path, "")
		f.want(w, 503, `{"error":"service_unavailable","reason":"too many requests for lists and messages are being answered"}`)
		if w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
	f.want(f.do("guest", http.MethodGet, "/api/whoami", ""), 200, "")
	<-f.s.heavy
	f.want(f.do("guest", http.MethodGet, "/api/queues", ""), 200, "")
	f.want(f.do("guest", http.MethodGet, "/api/queues", ""), 200, "")
}

package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// httpBodyBytesMax bounds an answer that is read into memory.
const httpBodyBytesMax = 64 << 20

// Answer is one HTTP answer.
type Answer struct {
	// Status is the status code.
	Status int
	// Header is the header.
	Header http.Header
	// Body is the body.
	Body []byte
}

// JSON decodes the body into v; a failure fails the test.
func (a Answer) JSON(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil {
		t.Fatalf("not the JSON expected: %v\n%d %s", err, a.Status, a.Body)
	}
}

// Path joins segments to a path of the management API, each escaped: Path("queues", "/", "a b") is "/api/queues/%2F/a%20b".
func Path(segments ...string) string {
	var b strings.Builder
	b.WriteString("/api")
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(url.QueryEscape(s), "+", "%20"))
	}
	return b.String()
}

// API sends a request to the management API as guest. body is JSON, nil for none.
func (b *Broker) API(t testing.TB, method, path string, body any) Answer {
	t.Helper()
	a, err := b.TryAPI(method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// APIAs is API as another user.
func (b *Broker) APIAs(t testing.TB, user, password, method, path string, body any) Answer {
	t.Helper()
	u, err := url.Parse(b.HTTPURL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	a, err := send(method, u.String()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TryAPI is API with an error for what is not an HTTP answer.
func (b *Broker) TryAPI(method, path string, body any) (Answer, error) {
	return send(method, b.HTTPURL()+path, body)
}

func send(method, target string, body any) (Answer, error) {
	var data io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return Answer{}, err
		}
		data = bytes.NewReader(encoded)
	}
	return request(method, target, data)
}

// Get fetches a path of the management API and decodes the answer, which must be 200.
func (b *Broker) Get(t testing.TB, path string, v any) {
	t.Helper()
	a := b.API(t, http.MethodGet, path, nil)
	if a.Status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, a.Status, a.Body)
	}
	a.JSON(t, v)
}

func request(method, target string, body io.Reader) (Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	u, err := url.Parse(target)
	if err != nil {
		return Answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return Answer{}, err
	}
	req.URL.User = nil
	if password, ok := u.User.Password(); ok {
		req.SetBasicAuth(u.User.Username(), password)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, httpBodyBytesMax))
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: data}, err
}

// AwaitHTTP waits until the management API answers the overview.
func (b *Broker) AwaitHTTP(t testing.TB) {
	t.Helper()
	Eventually(t, startTimeout, func() error {
		a, err := b.TryAPI(http.MethodGet, Path("overview"), nil)
		if err == nil && a.Status != http.StatusOK {
			err = fmt.Errorf("overview: %d %s", a.Status, a.Body)
		}
		return err
	})
}

// Metric reads one metric without labels from the metrics port.
func (b *Broker) Metric(name string) (float64, error) {
	a, err := request(http.MethodGet, "http://"+b.Metrics+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(a.Body)) {
		rest, ok := strings.CutPrefix(line, name+" ")
		if !ok {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(rest, &value); err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		return value, nil
	}
	return 0, fmt.Errorf("no metric %s among %d bytes of metrics (status %d)", name, len(a.Body), a.Status)
}

// HeapInUse returns the bytes of heap that are in use just after a garbage collection that began after this call. Start the broker
// with SmallHeap, else the wait is long.
func (b *Broker) HeapInUse() (float64, error) {
	const lastGC, inUse = "go_memstats_last_gc_time_seconds", "go_memstats_heap_inuse_bytes"
	before, err := b.Metric(lastGC)
	if err != nil {
		return 0, err
	}
	// Two cycles: what the first one still found reachable by chance, buffers in pools above all, the second one frees.
	cycles := 0
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		now, err := b.Metric(lastGC) // the request itself allocates, and so drives the collector
		if err != nil {
			return 0, err
		}
		if now > before {
			before = now
			if cycles++; cycles == 2 {
				return b.Metric(inUse)
			}
		}
	}
	return 0, fmt.Errorf("no garbage collection within %v", startTimeout)
}

// SmallHeap is the environment that makes a Go process collect its garbage after every twentieth of its heap.
var SmallHeap = []string{"GOGC=5"}

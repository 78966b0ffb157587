package management

import (
	"net/http"
	"testing"
	"testing/fstest"
)

func TestPages(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.UI = fstest.MapFS{
			"dist/index.html": {Data: []byte("<p>app")}, "dist/assets/app-1a2b.js": {Data: []byte("1")}, "dist/assets/app-1a2b.js.gz": {Data: []byte("compressed")}, "dist/placeholder.html": {Data: []byte("none")}, "secret": {Data: []byte("s")},
		}
	})
	f.want(f.do("-", http.MethodGet, "/", ""), 200, "<p>app")
	f.want(f.do("-", http.MethodGet, "/index.html", ""), 200, "<p>app")
	w := f.do("-", http.MethodGet, "/assets/app-1a2b.js", "")
	f.want(w, 200, "1")
	if got := w.Header().Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
		t.Error("assets are cached as", got)
	}
	if got := w.Header().Get("Content-Type"); got != "text/javascript; charset=utf-8" {
		t.Error("type", got)
	}
	if got := w.Header().Get("Content-Security-Policy"); got != pagePolicy {
		t.Error("policy", got)
	}
	for accept, want := range map[string]string{"gzip": "compressed", "br, gzip;q=0.5": "compressed", "gzip;q=0, br": "1", "": "1", "gzipped": "1"} {
		w := f.do("-", http.MethodGet, "/assets/app-1a2b.js", "", func(r *http.Request) { r.Header.Set("Accept-Encoding", accept) })
		f.want(w, 200, want)
		if got := w.Header().Get("Content-Encoding"); (got == "gzip") != (want == "compressed") {
			t.Errorf("%q is answered in %q", accept, got)
		}
	}
	for _, path := range []string{"/nope", "/../secret", "/%2e%2e/secret", "/assets", "/assets/", "/assets/../../secret", "/dist/index.html", "//"} {
		if w := f.do("-", http.MethodGet, path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	f.want(f.do("-", http.MethodPost, "/", ""), 405, "")
	if w := f.do("-", http.MethodGet, "/api", ""); w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != "/" {
		t.Error("/api leads to", w.Code, w.Header())
	}
}

// TestPlaceholder: a binary that was built without the app says so.
func TestPlaceholder(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.UI = fstest.MapFS{"dist/placeholder.html": {Data: []byte("no app")}} })
	f.want(f.do("-", http.MethodGet, "/", ""), 200, "no app")
}

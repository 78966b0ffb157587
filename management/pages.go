package management

import (
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// pagePolicy is the content security policy of the web UI: its own files, its own API, nothing written into a page. The app's styles at run time are set through the object model, which a
// policy does not concern. Strings become markup only through the templates of the app's framework.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types svelte-trusted-html"

// newPages serves the web UI. Without a built app that is a placeholder.
func newPages(files fs.FS) http.Handler {
	dist, err := fs.Sub(files, "dist")
	if err != nil {
		return http.NotFoundHandler()
	}
	index := "index.html"
	if _, err := fs.Stat(dist, index); err != nil {
		index = "placeholder.html"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "HEAD, GET")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = index
		}
		info, err := fs.Stat(dist, name)
		if err != nil || info.IsDir() {
			http.NotFound(w, r)
			return
		}
		// The build puts a hash into the names of what stands below assets, so these never change.
		if strings.HasPrefix(path.Clean(name), "assets/") {
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		} else {
			h.Set("Cache-Control", "no-cache")
		}
		serveFile(w, r, dist, name)
	})
}

// pageTypes are the types of the app's files. The system's own table, which http.ServeContent asks, differs between machines.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// serveFile sends a file, or the compressed copy that the build laid beside it to those who take that. http.ServeFileFS would redirect from index.html.
func serveFile(w http.ResponseWriter, r *http.Request, files fs.FS, name string) {
	if kind, ok := pageTypes[path.Ext(name)]; ok {
		w.Header().Set("Content-Type", kind)
	}
	if _, err := fs.Stat(files, name+".gz"); err == nil {
		w.Header().Add("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			w.Header().Set("Content-Encoding", "gzip")
			name += ".gz"
		}
	}
	data, err := fs.ReadFile(files, name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
}

// acceptsGzip tells whether the request takes gzip, which a quality of 0 refuses.
func acceptsGzip(r *http.Request) bool {
	for entry := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, quality, _ := strings.Cut(entry, ";")
		if strings.TrimSpace(coding) == "gzip" {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(quality), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}

package management

import (
	"io/fs"
	"net/http"
	"path"
	"strings"
)

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
		h.Set("Content-Security-Policy", "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; frame-ancestors 'none'; base-uri 'none'")
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

// serveFile sends a file as it is: http.ServeFileFS would redirect from index.html.
func serveFile(w http.ResponseWriter, r *http.Request, files fs.FS, name string) {
	if strings.HasSuffix(name, "index.html") {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(data)
		return
	}
	http.ServeFileFS(w, r, files, name)
}

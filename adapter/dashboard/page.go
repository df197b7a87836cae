package dashboard

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"
)

// The page is built by make web.
//
//go:embed web/dist
var built embed.FS

// page serves the page and its assets. Assets have the hash of their content in
// their names, so a browser may keep them.
func page() http.Handler {
	dist, err := fs.Sub(built, "web/dist")
	if err != nil {
		panic(err) // the path is a constant
	}
	files := http.FileServerFS(dist)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", http.MethodGet)
			refuse(w, http.StatusMethodNotAllowed, "wrong method", "use GET for "+r.URL.Path)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		if strings.HasPrefix(r.URL.Path, "/assets/") {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		files.ServeHTTP(w, r)
	})
}

package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/tidegate-go/tidegate/server/internal/chart"
)

// policy lets the page load its own files and talk to its own server, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed static
var static embed.FS

// asset is a file as it is served.
type asset struct {
	name string
	data []byte
	etag string
}

// Handler answers GET and HEAD of the page: its document at /, its other files below /page/. It answers 404 to all else.
func Handler() (http.Handler, error) {
	assets := make(map[string]*asset)
	add := func(at, name string, data []byte) {
		sum := sha256.Sum256(data)
		assets[at] = &asset{name: name, data: data, etag: `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
	add("/page/uPlot.js", "uPlot.js", []byte(chart.Script))
	add("/page/uPlot.css", "uPlot.css", []byte(chart.Style))
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := static.ReadFile("static/" + e.Name())
		if err != nil {
			return nil, err
		}
		at := "/page/" + e.Name()
		if e.Name() == "index.html" {
			at = "/"
		}
		add(at, e.Name(), data)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := assets[r.URL.Path]
		if a == nil {
			http.NotFound(w, r)
			return
		}
		a.serve(w, r)
	}), nil
}

// serve writes the file, or that the client has it already. Clients always ask, so that an update of the server is never
// mixed with files of the one before; it costs a 304.
func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", contentType(a.name))
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", a.etag)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	http.ServeContent(w, r, a.name, time.Time{}, bytes.NewReader(a.data)) // heeds If-None-Match
}

// contentType does not ask the machine what a suffix means, as that varies; a module of another type would not be run.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

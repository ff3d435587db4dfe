package page

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	h, err := Handler()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestFilesAreServedStrictly(t *testing.T) {
	for path, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/page/page.css": "text/css; charset=utf-8", "/page/page.js": "text/javascript; charset=utf-8",
		"/page/uPlot.js": "text/javascript; charset=utf-8", "/page/uPlot.css": "text/css; charset=utf-8", "/page/icon.svg": "image/svg+xml",
	} {
		w := get(t, path)
		h := w.Header()
		if w.Code != http.StatusOK || w.Body.Len() == 0 || h.Get("Content-Type") != kind {
			t.Errorf("%s: %d, %d bytes of %q", path, w.Code, w.Body.Len(), h.Get("Content-Type"))
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
				"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
}

func TestFilesAreNotSentTwice(t *testing.T) {
	etag := get(t, "/page/page.js").Header().Get("ETag")
	if w := get(t, "/page/page.js", "If-None-Match", etag); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("%q again: %d with %d bytes", etag, w.Code, w.Body.Len())
	}
	if w := get(t, "/page/page.js", "If-None-Match", `"another"`); w.Code != http.StatusOK {
		t.Errorf("after a change: %d", w.Code)
	}
}

func TestNothingElseIsServed(t *testing.T) {
	for _, path := range []string{"/page/", "/page/index.html", "/page/../page.go", "/page/none.js", "/index.html", "/page"} {
		if w := get(t, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// The policy would block what is inline; better to hear of it here than in a browser. And what could turn text of the API
// into HTML is not used at all.
func TestFilesHaveNothingInline(t *testing.T) {
	forbidden := map[string]*regexp.Regexp{
		".html": regexp.MustCompile(`(?i)<script(?:>|[^>]*>[^<])|<style|\sstyle=|\son[a-z]+=|https?://`),
		".js": regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|` +
			`setAttribute\("style|localStorage|https?://`),
		".css": regexp.MustCompile(`(?i)@import|https?://|expression\(`),
	}
	err := fs.WalkDir(static, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := static.ReadFile(path)
		if err != nil {
			return err
		}
		for suffix, re := range forbidden {
			if strings.HasSuffix(path, suffix) && re.Match(data) {
				t.Errorf("%s has %q", path, re.Find(data))
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

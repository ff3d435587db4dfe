package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// recorder notes the status of a response. It is only between the server and a handler where the status is needed; what
// the server's writer can do beside [http.ResponseWriter], the one that record returns can do, too, and nothing else.
type recorder struct {
	http.ResponseWriter
	status int // 0: none yet
}

// WriteHeader notes the first status that is not informational. 101 is final.
func (r *recorder) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		r.note(status)
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write notes a 200 where there was no status.
func (r *recorder) Write(b []byte) (int, error) {
	r.note(http.StatusOK)
	return r.ResponseWriter.Write(b)
}

// WriteString spares [io.WriteString] a copy.
func (r *recorder) WriteString(s string) (int, error) {
	r.note(http.StatusOK)
	return io.WriteString(r.ResponseWriter, s)
}

// Unwrap is for [http.ResponseController].
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) note(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// final is the status of a response that is complete.
func (r *recorder) final() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}

// flusher, hijacker, reader and pusher are what a writer may be able to do.
type (
	flusher  struct{ r *recorder }
	hijacker struct{ r *recorder }
	reader   struct{ r *recorder }
	pusher   struct{ r *recorder }
)

// Flush sends the header, with a 200 where there was no status.
func (f flusher) Flush() { _ = f.FlushError() }

// FlushError is Flush, for [http.ResponseController].
func (f flusher) FlushError() error {
	f.r.note(http.StatusOK)
	return http.NewResponseController(f.r.ResponseWriter).Flush()
}

// Hijack hands the connection over. What is said on it is no status.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.r.ResponseWriter.(http.Hijacker).Hijack()
}

// ReadFrom lets the server copy in its own way.
func (r reader) ReadFrom(src io.Reader) (int64, error) {
	r.r.note(http.StatusOK)
	return r.r.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

// Push starts a push of HTTP/2.
func (p pusher) Push(target string, opts *http.PushOptions) error {
	return p.r.ResponseWriter.(http.Pusher).Push(target, opts)
}

// record returns a recorder, and the writer for the handler.
func record(w http.ResponseWriter) (*recorder, http.ResponseWriter) {
	r := &recorder{ResponseWriter: w}
	f, h, c, p := flusher{r}, hijacker{r}, reader{r}, pusher{r}
	can := 0
	if _, ok := w.(http.Flusher); ok {
		can |= 1
	}
	if _, ok := w.(http.Hijacker); ok {
		can |= 2
	}
	if _, ok := w.(io.ReaderFrom); ok {
		can |= 4
	}
	if _, ok := w.(http.Pusher); ok {
		can |= 8
	}
	switch can {
	case 1:
		return r, struct {
			*recorder
			flusher
		}{r, f}
	case 2:
		return r, struct {
			*recorder
			hijacker
		}{r, h}
	case 3:
		return r, struct {
			*recorder
			flusher
			hijacker
		}{r, f, h}
	case 4:
		return r, struct {
			*recorder
			reader
		}{r, c}
	case 5:
		return r, struct {
			*recorder
			flusher
			reader
		}{r, f, c}
	case 6:
		return r, struct {
			*recorder
			hijacker
			reader
		}{r, h, c}
	case 7: // HTTP/1
		return r, struct {
			*recorder
			flusher
			hijacker
			reader
		}{r, f, h, c}
	case 8:
		return r, struct {
			*recorder
			pusher
		}{r, p}
	case 9: // HTTP/2
		return r, struct {
			*recorder
			flusher
			pusher
		}{r, f, p}
	case 10:
		return r, struct {
			*recorder
			hijacker
			pusher
		}{r, h, p}
	case 11:
		return r, struct {
			*recorder
			flusher
			hijacker
			pusher
		}{r, f, h, p}
	case 12:
		return r, struct {
			*recorder
			reader
			pusher
		}{r, c, p}
	case 13:
		return r, struct {
			*recorder
			flusher
			reader
			pusher
		}{r, f, c, p}
	case 14:
		return r, struct {
			*recorder
			hijacker
			reader
			pusher
		}{r, h, c, p}
	case 15:
		return r, struct {
			*recorder
			flusher
			hijacker
			reader
			pusher
		}{r, f, h, c, p}
	}
	return r, r
}

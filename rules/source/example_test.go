package source_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tidegate-go/tidegate/rules/source"
)

// overHTTP is a source of rules that a web server has. It asks with the ETag of what it got last, so that an answer
// without a change is short.
type overHTTP struct {
	client *http.Client
	url    string
}

func (s *overHTTP) Name() string { return "http" }

func (s *overHTTP) Watch(ctx context.Context, deliver func(source.Document, error)) error {
	etag := "" // each Watch begins with the document as it is
	return source.Poll(ctx, 50*time.Millisecond, 10*time.Second, func(ctx context.Context) (source.Document, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
		if err != nil {
			return source.Document{}, err
		}
		if etag != "" {
			req.Header.Set("If-None-Match", etag)
		}
		resp, err := s.client.Do(req)
		if err != nil {
			return source.Document{}, err
		}
		defer resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusOK:
		case http.StatusNotModified:
			return source.Document{}, source.ErrUnchanged
		case http.StatusNotFound:
			return source.Document{}, source.ErrNone
		default:
			return source.Document{}, fmt.Errorf("%s answered %s", s.url, resp.Status)
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, source.MaxText+1))
		if err != nil {
			return source.Document{}, err // a part of a file may be a good file, with fewer rules
		}
		changed, err := http.ParseTime(resp.Header.Get("Last-Modified"))
		if err != nil {
			changed = time.Now()
		}
		etag = resp.Header.Get("ETag")
		return source.Document{Text: text, Version: changed.UnixMicro(), Origin: s.url}, nil
	}, deliver)
}

// A source of one's own: rules that are polled over HTTP.
func ExampleSource() {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		if r.Header.Get("If-None-Match") == `"one"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, "version: 1\n")
	}))
	defer web.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var s source.Source = &overHTTP{client: web.Client(), url: web.URL} // give it to live.New
	err := s.Watch(ctx, func(d source.Document, err error) {
		fmt.Printf("%s delivered %q, %v\n", s.Name(), d.Text, err)
	})
	fmt.Println(err)
	// Output:
	// http delivered "version: 1\n", <nil>
	// context deadline exceeded
}

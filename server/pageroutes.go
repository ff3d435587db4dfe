package server

import "github.com/tidegate-go/tidegate/server/page"

// servePage adds the page to the paths. Like the other paths for operators it is always open: it is wanted most when there
// are too many requests.
func (s *Server) servePage() error {
	h, err := page.Handler()
	if err != nil {
		return err
	}
	s.mux.Handle("GET /{$}", h)
	s.mux.Handle("GET /page/", h)
	s.mux.Handle("/page/", wrongMethod("GET, HEAD"))
	return nil
}

package experiment

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// listening is an HTTP server on a free port of 127.0.0.1.
type listening struct {
	url    string
	server *http.Server
	done   sync.WaitGroup
}

func listen(ctx context.Context, h http.Handler) (*listening, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ls := &listening{
		url: "http://" + l.Addr().String(),
		server: &http.Server{
			Handler:           h,
			ReadHeaderTimeout: patience,
			ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // what goes wrong is seen by who asked
		},
	}
	ls.done.Go(func() { _ = ls.server.Serve(l) }) // until close
	return ls, nil
}

// close ends the server and its connections.
func (ls *listening) close() {
	_ = ls.server.Close()
	ls.done.Wait()
}

// patience bounds what is waited for before and after a run: long, as it is never waited out on a machine that works.
const patience = 10 * time.Second

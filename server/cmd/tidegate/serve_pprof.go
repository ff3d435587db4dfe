package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof" // it adds itself to http.DefaultServeMux, which nothing here serves
	"time"

	"github.com/spf13/cobra"
)

// pprofFlags are the flags of serve that are about profiles.
type pprofFlags struct{ address string }

func (f *pprofFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "pprof", "", "address to answer profiles on, at /debug/pprof/, to whoever can reach it: 127.0.0.1:6060 (default off)")
}

// open listens, where the flag asks for it, and answers until it is stopped.
func (f *pprofFlags) open(ctx context.Context, log *slog.Logger) (stop func(), err error) {
	if f.address == "" {
		return func() {}, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.address)
	if err != nil {
		return nil, notListening("pprof", f.address, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the command line is not told: it may hold secrets", http.StatusForbidden)
	})
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol) // of many addresses
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	s := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       time.Minute,
		WriteTimeout:      5 * time.Minute, // a profile takes as long as it is asked to
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l) // ends with Close
	}()
	log.Info("profiles are answered", slog.String("address", fmt.Sprintf("http://%s/debug/pprof/", shownAddress(l.Addr()))))
	return func() {
		_ = s.Close() // a profile under way is of no use any more
		<-ended
	}, nil
}

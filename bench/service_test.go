package main

import (
	"testing"

	"github.com/tidegate-go/tidegate/internal/redistest"
)

// Our service is built, started and asked as the benchmark does; peers are installed by the benchmark alone.
func TestServiceDecides(t *testing.T) {
	srv := redistest.StartTCP(t)
	dir := t.TempDir()
	for _, w := range serviceWorkloads(srv.Addr, dir) {
		call, done, err := w.contenders[0].open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for n := range 50 {
			for caller := range 2 {
				if err := call(t.Context(), caller, n); err != nil {
					t.Fatal(err)
				}
			}
		}
		done()
	}
}

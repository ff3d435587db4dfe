// Package loggen writes access logs of a made-up day, for tests and benchmarks of replay: users of whom a few are busy and most are
// not (Zipf), a crawler that asks steadily, and a minute in which a crowd comes at once. The same seed writes the same log.
package loggen

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// Config says what to write. All fields are required.
type Config struct {
	Lines int
	Seed  uint64
	Start time.Time
	// PerSecond is how many requests come in a second, on average, outside the burst.
	PerSecond int
}

const (
	users        = 20_000
	crawlerPart  = 0.05
	burstFactor  = 8
	burstAt      = 0.6 // of the lines
	burstSeconds = 20
)

// Write writes a log in the combined format, with whole seconds.
func Write(w io.Writer, cfg Config) error {
	r := rand.New(rand.NewPCG(cfg.Seed, 0))
	zipf := rand.NewZipf(r, 1.2, 4, users-1)
	b := bufio.NewWriterSize(w, 1<<16)
	var elapsed float64 // seconds
	var burstEnd float64
	for i := range cfg.Lines {
		rate := float64(cfg.PerSecond)
		if i == int(burstAt*float64(cfg.Lines)) {
			burstEnd = elapsed + burstSeconds
		}
		burst := elapsed < burstEnd
		if burst {
			rate *= burstFactor
		}
		elapsed += r.ExpFloat64() / rate
		at := cfg.Start.Add(time.Duration(elapsed * float64(time.Second))).UTC().Format("02/Jan/2006:15:04:05 -0700")
		var err error
		switch {
		case r.Float64() < crawlerPart:
			_, err = fmt.Fprintf(b, "198.51.100.7 - - [%s] \"GET /items/%d HTTP/1.1\" 200 512 \"-\" \"crawler/1.0\"\n", at, i)
		case burst:
			n := r.IntN(1 << 16)
			_, err = fmt.Fprintf(b, "192.0.%d.%d - - [%s] \"POST /api/tickets HTTP/1.1\" 201 64 \"-\" \"Mozilla/5.0\"\n", n>>8, n&255, at)
		default:
			user := zipf.Uint64()
			_, err = fmt.Fprintf(b, "10.%d.%d.%d - user-%d [%s] \"GET /api/orders/%d?page=%d HTTP/1.1\" 200 2048 \"https://shop.example/\" \"Mozilla/5.0\"\n",
				user>>16&255, user>>8&255, user&255, user, at, r.IntN(1000), r.IntN(5))
		}
		if err != nil {
			return err
		}
	}
	return b.Flush()
}

// Package loggen writes access logs of a made-up day, for tests and benchmarks of replay: users of whom a few are busy and most are
// not (Zipf), a crawler that asks steadily, and some seconds in which a crowd comes at once. The same seed writes the same log.
package loggen

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"
)

// Formats are those that a log can be written in: combined has whole seconds, json µs.
var Formats = []string{"combined", "json"}

// Config says what to write. All fields but Format are required.
type Config struct {
	Lines int
	Seed  uint64
	Start time.Time
	// PerSecond is how many requests come in a second, on average, outside the burst.
	PerSecond int
	// Format is one of Formats. Default: combined.
	Format string
}

const (
	users        = 20_000
	crawlerPart  = 0.05
	burstFactor  = 8
	burstAt      = 0.6 // of the lines
	burstSeconds = 20
)

// request is what a line tells.
type request struct {
	at                              time.Time
	ip, user, method, target, agent string
	referer                         string
	status, bytes                   int
}

// Write writes a log. The error says what is wrong with the config, or is the writer's.
func Write(w io.Writer, cfg Config) error {
	if cfg.Lines < 0 || cfg.PerSecond < 1 {
		return fmt.Errorf("%d lines, %d a second: no fewer than 0 and 1", cfg.Lines, cfg.PerSecond)
	}
	write := combined
	switch cfg.Format {
	case "", "combined":
	case "json":
		write = inJSON
	default:
		return fmt.Errorf("there is no format %q: write one of %s", cfg.Format, strings.Join(Formats, ", "))
	}
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
		req := request{at: cfg.Start.Add(time.Duration(elapsed * float64(time.Second))).UTC(), user: "-", referer: "-"}
		switch {
		case r.Float64() < crawlerPart:
			req.ip, req.method, req.target, req.status, req.bytes = "198.51.100.7", "GET", fmt.Sprintf("/items/%d", i), 200, 512
			req.agent = "crawler/1.0"
		case burst:
			n := r.IntN(1 << 16)
			req.ip, req.method, req.target, req.status, req.bytes = fmt.Sprintf("192.0.%d.%d", n>>8, n&255), "POST", "/api/tickets", 201, 64
			req.agent = "Mozilla/5.0"
		default:
			user := zipf.Uint64()
			req.ip, req.user = fmt.Sprintf("10.%d.%d.%d", user>>16&255, user>>8&255, user&255), fmt.Sprintf("user-%d", user)
			req.method, req.target = "GET", fmt.Sprintf("/api/orders/%d?page=%d", r.IntN(1000), r.IntN(5))
			req.status, req.bytes, req.referer, req.agent = 200, 2048, "https://shop.example/", "Mozilla/5.0"
		}
		if err := write(b, &req); err != nil {
			return err
		}
	}
	return b.Flush()
}

func combined(w io.Writer, r *request) error {
	_, err := fmt.Fprintf(w, "%s - %s [%s] \"%s %s HTTP/1.1\" %d %d %q %q\n",
		r.ip, r.user, r.at.Format("02/Jan/2006:15:04:05 -0700"), r.method, r.target, r.status, r.bytes, r.referer, r.agent)
	return err
}

func inJSON(w io.Writer, r *request) error {
	_, err := fmt.Fprintf(w, `{"ts":%d.%06d,"remote_addr":%q,"user":%q,"method":%q,"uri":%q,"status":%d,"bytes":%d,"referer":%q,"user_agent":%q}`+"\n",
		r.at.Unix(), r.at.Nanosecond()/1000, r.ip, r.user, r.method, r.target, r.status, r.bytes, r.referer, r.agent)
	return err
}

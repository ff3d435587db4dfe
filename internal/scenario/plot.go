package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidegate-go/tidegate"
)

const (
	maxColumns = 110
	maxRows    = 10
)

// point is what a take left.
type point struct {
	remaining int64
	allowed   bool
}

// plot takes in a row and draws what remains after each take.
func (s *story) plot(r request, line string) error {
	if r.every <= 0 || r.run/r.every >= maxColumns || len(r.charges) > 1 {
		return fmt.Errorf("a plot has one bucket and at most %d takes", maxColumns)
	}
	var points []point
	limit, allowed := int64(0), 0
	start := len(s.rows)
	s.say(line, "")
	for at := time.Duration(0); at <= r.run; at += r.every {
		if at > 0 {
			s.pass(r.every)
		}
		decisions, err := s.store.Take(context.Background(), r.charges, nil)
		if err != nil {
			return err
		}
		d := decisions[0]
		if d.Limit == tidegate.NoLimit {
			return errors.New("there is no limit to draw")
		}
		limit = max(limit, d.Limit)
		points = append(points, point{d.Remaining, d.Allowed})
		if d.Allowed {
			allowed++
		}
	}
	s.rows[start].result = fmt.Sprintf("%d of %d allowed", allowed, len(points))
	for _, text := range draw(points, limit, r.every) {
		s.rows = append(s.rows, row{"", text, ""})
	}
	return nil
}

// draw draws the points, a column each, over a scale from 0 to the limit.
func draw(points []point, limit int64, every time.Duration) []string {
	step := max(1, (limit+maxRows-1)/maxRows)
	width := len(fmt.Sprint(limit))
	var lines []string
	for level := limit / step; level >= 0; level-- {
		var b strings.Builder
		fmt.Fprintf(&b, "%*d |", width, level*step)
		for _, p := range points {
			switch {
			case p.remaining/step != level:
				b.WriteByte(' ')
			case p.allowed:
				b.WriteByte('*')
			default:
				b.WriteByte('x')
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	lines = append(lines, strings.Repeat(" ", width)+" +"+strings.Repeat("-", len(points)))
	scale := strings.Repeat(" ", width+2)
	for i := 0; i < len(points); i += 20 {
		label := short(time.Duration(i) * every)
		scale = fmt.Sprintf("%-*s", width+2+i, scale) + label
	}
	return append(lines, scale)
}

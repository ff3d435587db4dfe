package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate/server/internal/experiment"
)

// countdown shows which run is under way and how long it still takes.
type countdown struct {
	w     io.Writer // nil: nobody looks
	text  string
	left  time.Duration
	begun chan struct{}
	stop  chan struct{}
	done  sync.WaitGroup
}

func newCountdown(w io.Writer, number int, plans []experiment.Plan) *countdown {
	p := &plans[number-1]
	c := &countdown{
		w: w, left: p.Duration, begun: make(chan struct{}), stop: make(chan struct{}),
		text: fmt.Sprintf("run %d of %d: %s, %s", number, len(plans), p.Scenario, p.Load),
	}
	if w != nil {
		c.done.Go(c.show)
	}
	return c
}

func (c *countdown) show() {
	defer fmt.Fprint(c.w, "\r\x1b[K")
	fmt.Fprintf(c.w, "\r\x1b[K%s, getting ready", c.text)
	select {
	case <-c.begun:
	case <-c.stop:
		return
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); ; {
		fmt.Fprintf(c.w, "\r\x1b[K%s, %v left", c.text, max(0, c.left-time.Since(start)).Round(time.Second))
		select {
		case <-tick.C:
		case <-c.stop:
			return
		}
	}
}

// begin says that the clock of the run has started.
func (c *countdown) begin() { close(c.begun) }

// end takes the line away.
func (c *countdown) end() {
	close(c.stop)
	c.done.Wait()
}

package experiment

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const maxWait = time.Minute // that a histogram holds

// answers is what the load generator saw.
type answers struct {
	mu      sync.Mutex
	waits   *hdrhistogram.Histogram // ns, from when a request was due to its answer
	longest time.Duration
	errors  int
	causes  map[string]int // of the errors
}

func newAnswers() *answers {
	return &answers{waits: hdrhistogram.New(1, int64(maxWait), 3), causes: map[string]int{}}
}

// saw notes how a request that was due so long ago was answered.
func (a *answers) saw(wait time.Duration, status int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.longest = max(a.longest, wait)
	_ = a.waits.RecordValue(int64(min(wait, maxWait))) // is within its bounds
	switch {
	case err != nil:
		a.errors++
		a.causes[err.Error()]++
	case status != http.StatusNoContent && status != http.StatusTooManyRequests:
		a.errors++
		a.causes[fmt.Sprintf("status %d", status)]++
	}
}

// drive sends the requests of a schedule, each when it is due, whatever became of those before, and returns how many it
// sent once all are answered. It ends early with ctx.
func drive(ctx context.Context, start time.Time, s *schedule, send func(ctx context.Context, replica int, due time.Time)) (sent int) {
	choose := s.replicas()
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	var all sync.WaitGroup
	defer all.Wait()
	for ; ; sent++ {
		at, ok := s.due(sent)
		if !ok {
			return sent
		}
		due, replica := start.Add(at), choose()
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return sent
		}
		all.Go(func() { send(ctx, replica, due) })
	}
}

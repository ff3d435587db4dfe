package grpclimit

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// logEvery is the shortest time between two lines of log about decisions that could not be made.
const logEvery = 10 * time.Second

// failureLog writes a line when decisions can no longer be made, one in a while as long as that lasts, and one when they
// can be again; never one for each call.
type failureLog struct {
	told  atomic.Bool  // a line was written since decisions were last made
	next  atomic.Int64 // when the next line may be written, in nanoseconds since the Unix epoch
	calls atomic.Int64 // that were not told of yet
}

func (f *failureLog) add(log *slog.Logger, err error, open bool) {
	f.calls.Add(1)
	now, next := time.Now().UnixNano(), f.next.Load()
	if now < next || !f.next.CompareAndSwap(next, now+int64(logEvery)) {
		return
	}
	f.told.Store(true)
	outcome := "refused"
	if open {
		outcome = "let pass"
	}
	log.Error("no decision could be made", slog.Any("error", err), slog.Int64("calls", f.calls.Swap(0)), slog.String("outcome", outcome))
}

// over notes that a decision was made.
func (f *failureLog) over(log *slog.Logger) {
	if f.told.Load() && f.told.CompareAndSwap(true, false) {
		log.Info("decisions are made again", slog.Int64("calls_since", f.calls.Swap(0)))
	}
}

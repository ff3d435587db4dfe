package afterwards

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestDoWaitsForAMomentAlone(t *testing.T) {
	for _, c := range []struct{ takes, waits time.Duration }{
		{0, 0}, {prompt / 2, prompt / 2}, {time.Second, prompt},
	} {
		synctest.Test(t, func(t *testing.T) {
			var calls Calls
			start := time.Now()
			calls.Do(func() { time.Sleep(c.takes) })
			if took := time.Since(start); took != c.waits {
				t.Errorf("a call of %v was waited for %v, not %v", c.takes, took, c.waits)
			}
			calls.Wait(time.Minute)
			if took := time.Since(start); took != c.takes {
				t.Errorf("a call of %v was over after %v", c.takes, took)
			}
		})
	}
}

func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls Calls
		calls.Wait(time.Minute) // for nothing
		start := time.Now()
		for range 3 {
			go calls.Do(func() { time.Sleep(time.Hour) })
		}
		synctest.Wait()
		calls.Wait(time.Second)
		if took := time.Since(start); took != time.Second+prompt {
			t.Errorf("it waited %v", took)
		}
		time.Sleep(time.Hour) // until they are over
	})
}

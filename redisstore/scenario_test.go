package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/internal/scenario"
)

// The stories that every store tells alike: see package scenario. They happen in the year 2100, since the server takes
// keys away by its own clock; at the end nothing may be left that would stay for ever. The caller's clock decides nothing:
// it is right in one story, two days behind in the next, and seventy years in the third.
func TestScenarios(t *testing.T) {
	srv := redistest.Start(t)
	stories := 0
	scenario.Run(t, "../internal/algo/testdata", func(t *testing.T, now func() time.Time) tidegate.Store {
		t.Helper()
		stories++
		callers := []func() time.Time{now, func() time.Time { return now().Add(-50 * time.Hour) }, time.Now}[stories%3]
		s, err := Open(srv.URL(), &Config{Prefix: fmt.Sprintf("story%d:", stories), Now: callers, Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		s.inject = func() int64 { return now().UnixMicro() }
		s.scripts = newScripts(true)
		return s
	})
	s, err := Open(srv.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	keys, err := s.client.Keys(ctx, "story*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("%d keys are left (%v)", len(keys), err)
	}
	for _, k := range keys {
		if ttl, err := s.client.PTTL(ctx, k).Result(); err != nil || ttl <= 0 {
			t.Errorf("%s stays for ever: %v (%v)", k, ttl, err)
		}
	}
}

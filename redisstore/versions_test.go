package redisstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
)

// A service that is started again, or rules that are read again, bring limits that are what they were under a newer version.
// Each bucket that was met so went to the take script, and 64 more takes of the limit with it: for hours, where there are many
// buckets. Now the quick scripts decide, and of two versions the newer stays.
func TestVersionsOfOneLimitAreDecidedQuickly(t *testing.T) {
	ctx := context.Background()
	srv := redistest.Start(t)
	s := openStore(t, srv.URL(), nil)
	for name, c := range map[string]struct {
		limit string
		other bool // another bucket is charged too
	}{
		"run": {"10/h", false}, "several": {"10/h", true},
		"window": {"10/h fixed-window", false}, "windows": {"10/h fixed-window", true},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(version int64) []tidegate.Charge {
				cs := []tidegate.Charge{newCharge(t, "r", name, c.limit, 1)}
				if c.other {
					cs = append(cs, newCharge(t, "r", name+" other", c.limit, 1))
				}
				for i := range cs {
					cs[i].Version = version
				}
				return cs
			}
			key := s.bucketKey(&at(0)[0], s.tag(&at(0)[0]), 0)
			for n, v := range []struct{ asked, kept int64 }{{5, 5}, {7, 7}, {6, 7}, {7, 7}, {8, 8}, {0, 8}} {
				ds, err := s.Take(ctx, at(v.asked), nil)
				if err != nil || !ds[0].Allowed || ds[0].Remaining != int64(9-n) {
					t.Errorf("take %d, of version %d: %+v, %v", n, v.asked, ds, err)
				}
				raw, _ := command(t, srv, "GET", key).(string)
				if parts := strings.Split(raw, "|"); len(parts) < 3 || parts[len(parts)-2] != string('0'+rune(v.kept)) { // a double may have a "|" too
					t.Errorf("take %d, of version %d: the bucket holds %q, want version %d", n, v.asked, raw, v.kept)
				}
				if ttl, _ := command(t, srv, "PTTL", key).(int64); ttl <= 0 || ttl > (time.Hour+3*time.Second).Milliseconds() {
					t.Errorf("take %d: the bucket stays for %d ms", n, ttl)
				}
				for _, charge := range at(v.asked) {
					l, err := s.limits.of(&charge)
					if err != nil || l.misses.Load() != 0 {
						t.Errorf("take %d, of version %d: the quick script left a bucket alone", n, v.asked)
					}
				}
			}
		})
	}
}

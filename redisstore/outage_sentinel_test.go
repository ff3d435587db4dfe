package redisstore

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/resilience"
)

// safeBuffer is a buffer that several write to.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestSentinelFailoverUnderTheWrapper: while a primary is dead the policies decide, and its successor does within a second of
// being one: what was charged before is spent there, and what was admitted meanwhile is charged to it. The same goes for a
// planned failover, and for a time without primary and sentinels.
func TestSentinelFailoverUnderTheWrapper(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	var said safeBuffer
	SetClientLogger(slog.New(slog.NewTextHandler(&said, nil)))
	t.Cleanup(func() { redis.SetLogger(silent{}) })
	set := redistest.StartSentinel(t)
	g := guard(t, "redis+sentinel://"+strings.Join(set.SentinelAddrs, ",")+"/"+set.MasterName, nil)
	c := newCharge(t, "api", "k", "100000/s burst 1000", 1)
	spent := newCharge(t, "daily", "k", "1000/1000h", 100)
	mustTake(t, g, c)
	g.returns(c)
	mustTake(t, g, spent)
	g.hasBeaten()
	set.WaitReplicated(t)

	old := set.KillPrimary(t)
	g.goesAway(c, resilience.KindConnection)
	if d := mustTake(t, g, spent)[0]; d.Source != tidegate.SourceFallback || !d.Allowed {
		t.Errorf("%+v", d)
	}
	set.WaitFailover(t, old)
	g.returns(c)
	eventually(t, 5*time.Second, "what was admitted alone is charged", func() error {
		return wantRemaining(g, spent, 800)
	})
	old.Restart()

	// The sentinels go too, so that nobody says where to dial.
	for _, s := range set.Sentinels {
		s.Pause()
	}
	primary := set.Nodes[0]
	if primary == old {
		primary = set.Nodes[1]
	}
	primary.Pause()
	g.goesAway(c, resilience.KindTimeout)
	primary.Resume()
	for _, s := range set.Sentinels {
		s.Resume()
	}
	g.returns(c)

	lines := strings.Count(said.String(), "\n") + strings.Count(g.logged(), "\n")
	if lines >= 20 { // of two outages
		t.Error("these are too many lines")
	}
	t.Logf("%d lines:\n%s%s", lines, g.logged(), said.String())
}

package server

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/internal/redistest"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/redisstore"
)

// BenchmarkRemoteStore takes from a store on Redis directly, through a server in front of it, and through one that decides in
// memory, with 64 callers of one key and of a thousand. Callers, server and Redis share the machine.
func BenchmarkRemoteStore(b *testing.B) {
	srv := redistest.Start(b)
	onRedis, err := redisstore.Open(srv.URL(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer onRedis.Close()
	memory := memstore.New(nil)
	defer memory.Close()
	for _, v := range []struct {
		name  string
		store tidegate.Store
	}{
		{"redisstore", onRedis},
		{"remote on redisstore", remoteOf(b, onRedis, 128)},
		{"remote on memstore", remoteOf(b, memory, 1)},
	} {
		for _, keys := range []int64{1, 1000} {
			for _, lease := range []time.Duration{0, 50 * time.Millisecond} {
				limit := &tidegate.Limit{Rate: 1e9, Per: time.Second, Burst: 1e9, Lease: lease}
				b.Run(fmt.Sprintf("%s/keys=%d/lease=%v", v.name, keys, lease), func(b *testing.B) {
					var n atomic.Int64
					b.SetParallelism(32) // by 2 processors
					b.RunParallel(func(pb *testing.PB) {
						charges := []tidegate.Charge{{Rule: "bench", Limit: limit, Cost: 1}}
						var ds []tidegate.Decision
						for pb.Next() {
							charges[0].Key = strconv.FormatInt(n.Add(1)%keys, 10)
							var err error
							if ds, err = v.store.Take(b.Context(), charges, ds[:0]); err != nil || !ds[0].Allowed {
								b.Error(ds, err)
								return
							}
						}
					})
				})
			}
		}
	}
}

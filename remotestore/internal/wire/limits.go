package wire

import (
	"math"
	"strings"
	"sync"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/remotestore/storev1"
)

// Limits collects the limits that the charges of a request refer to, each once.
type Limits struct {
	// NoLease leaves the leases of limits out, so that the server decides each take by its store: tokens that are taken
	// ahead twice could be spent two lifetimes after they left their bucket.
	NoLease bool

	// All are the limits so far, for the request.
	All []*storev1.Limit

	last   *tidegate.Limit
	at     uint32 // where last is
	places map[*tidegate.Limit]uint32
}

// place returns where the limit is, and adds it if it is new.
func (ls *Limits) place(l *tidegate.Limit) uint32 {
	if l == ls.last {
		return ls.at
	}
	at, ok := ls.places[l]
	if !ok {
		at = uint32(len(ls.All))
		ls.All = append(ls.All, ls.message(l))
		if ls.last != nil { // a map is worth it from the second on
			if ls.places == nil {
				ls.places = map[*tidegate.Limit]uint32{ls.last: ls.at}
			}
			ls.places[l] = at
		}
	}
	ls.last, ls.at = l, at
	return at
}

func (ls *Limits) message(l *tidegate.Limit) *storev1.Limit {
	m := &storev1.Limit{
		Algorithm: storev1.Algorithm(l.Algorithm),
		Rate:      l.Rate,
		Per:       int64(l.Per),
		Calendar:  storev1.Calendar(l.Calendar),
		Zone:      strings.ToValidUTF8(l.Zone, "\uFFFD"), // a message with any other would not be sent
		Burst:     l.Burst,
		Queue:     l.Queue,
		Slices:    int64(l.Slices),
		Warmup:    int64(l.Warmup),
		Ttl:       int64(l.TTL),
		Lease:     int64(l.Lease),
		Shards:    int64(l.Shards),
	}
	// A lease that is not valid is sent, so that the server says so.
	if ls.NoLease && l.Lease > 0 && l.Validate() == nil {
		m.Lease = 0
	}
	return m
}

// maxKnown bounds the limits that a [Table] knows, for clients that make up limits all day; it starts anew beyond.
const maxKnown = 10_000

// Table makes limits of messages: one pointer for each that is valid, since stores keep what they work out for a pointer.
// The zero Table is ready for use.
type Table struct {
	mu    sync.RWMutex
	known map[tidegate.Limit]*tidegate.Limit
}

// A Read is a limit that was read, or what is wrong with it.
type Read struct {
	Limit *tidegate.Limit
	Err   error
}

// Read makes limits of those of a request.
func (t *Table) Read(messages []*storev1.Limit) []Read {
	read := make([]Read, len(messages))
	for i, m := range messages {
		read[i] = t.read(limit(m))
	}
	return read
}

func (t *Table) read(l tidegate.Limit) Read {
	t.mu.RLock()
	known := t.known[l]
	t.mu.RUnlock()
	if known != nil {
		return Read{Limit: known}
	}
	if err := l.Validate(); err != nil {
		return Read{Err: err}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known = t.known[l]; known != nil {
		return Read{Limit: known}
	}
	if len(t.known) >= maxKnown || t.known == nil {
		t.known = map[tidegate.Limit]*tidegate.Limit{}
	}
	t.known[l] = &l
	return Read{Limit: &l}
}

// limit makes a limit of a message. What a field of the limit cannot hold becomes a value of it that is not valid.
func limit(m *storev1.Limit) tidegate.Limit {
	return tidegate.Limit{
		Rate:      m.GetRate(),
		Per:       time.Duration(m.GetPer()),
		Calendar:  tidegate.Calendar(small(int64(m.GetCalendar()), math.MaxUint8)),
		Zone:      m.GetZone(),
		Burst:     m.GetBurst(),
		Algorithm: tidegate.Algorithm(small(int64(m.GetAlgorithm()), math.MaxUint8)),
		Queue:     m.GetQueue(),
		Slices:    int(small(m.GetSlices(), math.MaxInt32)),
		Warmup:    time.Duration(m.GetWarmup()),
		TTL:       time.Duration(m.GetTtl()),
		Lease:     time.Duration(m.GetLease()),
		Shards:    int(small(m.GetShards(), math.MaxInt32)),
	}
}

// small returns n, or the bound if n is negative or above it: no limit has so many of anything that this is asked of.
func small(n, bound int64) int64 {
	if n < 0 || n > bound {
		return bound
	}
	return n
}

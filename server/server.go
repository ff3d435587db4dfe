package server

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/guard"
	"github.com/tidegate-go/tidegate/internal/hotkeys"
	"github.com/tidegate-go/tidegate/resilience"
	"github.com/tidegate-go/tidegate/rules"
)

// Config says how a [Server] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// Rules are the rules that takes are decided by, where there is no Set. Default: [ExampleRule] alone.
	Rules []Rule
	// Set is the rules that takes are decided by, such as those of a file. Default: Rules.
	Set *rules.Set
	// Engine says how the engine of the rules works: since when they count, and who is told of takes besides the server.
	// A Guard of its own takes the place of the server's, which then knows of no breakers. Default: nil, its default.
	Engine *rules.Config
	// Token is what a request must send to reset a bucket, to refund or to change rules. Default: none, so that all of them
	// are refused.
	Token string
	// StoreName is what /v1/state calls the store, without secrets. Default: "memory".
	StoreName string
	// Version is what /v1/state calls the version of the program. Default: "".
	Version string
	// MaxRequests bounds the requests that are answered at once; one more is answered 503. The paths for operators,
	// /healthz, /readyz and /metrics, are always open. Default: 10,000.
	MaxRequests int
	// ShutdownDelay is how long the server goes on as before, but for /readyz, once it is told to shut down, so that load
	// balancers see it and turn to others first. Default: 0.
	ShutdownDelay time.Duration
	// DrainTime is how long a shutdown then waits for the requests that are running. Default: 10 s.
	DrainTime time.Duration
	// Leases tells what became of the tokens that the store took ahead, for /metrics; redisstore's Stats has it.
	// Default: none, the store has no leases.
	Leases func() LeaseStats
	// StoreMetrics is what the store tells of itself, for /metrics, if it is one of package resilience.
	// Default: none, and of such a store only its state is told.
	StoreMetrics *StoreMetrics
	// Traces makes a span of each request and of each call of the store, which tell of rules and never of keys.
	// Default: none, and then they cost nothing.
	Traces trace.TracerProvider
	// Logger is told of changes of state, never of single requests. Default: none, nothing is logged.
	Logger *slog.Logger
}

// A Server answers the HTTP API. Create it with [New], then give its [Server.Handler] to a server of your own, or let
// it [Server.Serve] a listener.
type Server struct {
	cfg      Config
	log      *slog.Logger
	store    tidegate.Store
	watched  *watchedStore             // the same; nil for a store that tells of itself
	status   func() resilience.Status  // of a store that does; nil for others
	share    func(rule string) float64 // of such a store
	engine   *rules.Engine
	guard    *guard.Guard
	hot      *hotkeys.Tracker
	traffic  *traffic
	followed followed
	audits   audits
	swapping sync.Mutex // so that breakers, counters and engine are of one set
	began    time.Time
	token    *token
	metrics  *metrics
	rules    *ruleCounter
	running  atomic.Int64 // requests that count against MaxRequests
	draining atomic.Bool
	awaiting atomic.Bool // there are no rules yet; see AwaitRules
	handler  http.Handler
	mux      *http.ServeMux
	large    atomic.Int64    // requests whose answers are large, that run
	unready  []func() string // what else /readyz asks
}

// New returns a server that decides in the store, which stays the caller's to close. A store that others share is best
// wrapped in a [resilience.Store]: while it is away, takes are then decided all the same. A nil config is the default.
// The error says what is wrong with the config.
func New(store tidegate.Store, cfg *Config) (*Server, error) {
	if store == nil {
		return nil, errors.New("server: the store is nil: give New one, such as memstore.New(nil)")
	}
	s := &Server{began: time.Now(), traffic: newTraffic(), audits: newAudits()}
	if cfg != nil {
		s.cfg = *cfg
	}
	if err := s.cfg.normalize(); err != nil {
		return nil, err
	}
	set, err := s.cfg.set()
	if err != nil {
		return nil, err
	}
	s.log = s.cfg.Logger
	if s.cfg.Token != "" {
		s.token = newToken(s.cfg.Token)
	}
	calls := newCallMetrics()
	if s.cfg.StoreMetrics != nil {
		calls = s.cfg.StoreMetrics.calls
	}
	s.metrics = newMetrics(func() float64 { return float64(s.running.Load()) }, calls)
	if s.cfg.Leases != nil {
		s.metrics.leases(s.cfg.Leases)
	}
	if guarded, ok := store.(*resilience.Store); ok {
		s.store, s.status = store, guarded.Status
		s.metrics.outages(s.cfg.StoreMetrics, guarded.Status)
	} else {
		s.watched = &watchedStore{Store: store, calls: calls, log: s.log}
		s.store = s.watched
	}
	if s.cfg.Traces != nil {
		s.store = &tracedStore{Store: s.store, tracer: s.cfg.Traces.Tracer(tracerName)}
	}
	if err := s.decide(store, set); err != nil {
		return nil, err
	}
	s.handler = s.traced(s.routes())
	if err := s.servePage(); err != nil {
		return nil, err
	}
	return s, nil
}

// Engine returns the engine that decides. Its rules are swapped by [Server.Swap], which tells the breakers too.
func (s *Server) Engine() *rules.Engine { return s.engine }

// Close frees what the breakers hold, once the server does not answer any more. The store stays open.
func (s *Server) Close() error { return s.guard.Close() }

// Handler returns the handler of all paths of the API.
func (s *Server) Handler() http.Handler { return s.handler }

func (c *Config) normalize() error {
	if c.MaxRequests < 0 || c.ShutdownDelay < 0 || c.DrainTime < 0 {
		return fmt.Errorf("server: MaxRequests %d, ShutdownDelay %v and DrainTime %v must not be negative: leave them 0 for the default",
			c.MaxRequests, c.ShutdownDelay, c.DrainTime)
	}
	if strings.TrimSpace(c.Token) != c.Token {
		// No header could carry it: net/http trims what a client sends.
		return errors.New("server: the token begins or ends with a space: remove it")
	}
	if c.MaxRequests == 0 {
		c.MaxRequests = 10_000
	}
	if c.DrainTime == 0 {
		c.DrainTime = 10 * time.Second
	}
	c.StoreName = cmp.Or(c.StoreName, "memory")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

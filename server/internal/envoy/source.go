package envoy

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// SourceConfig says what a [Source] reads. Dir and Set are required.
type SourceConfig struct {
	// Dir is the directory of the files.
	Dir string
	// Options say how they are read.
	Options Options
	// Set is given each config that is good and other than the one before. [Service.Set] is one.
	Set func(*Config)
	// Metrics counts what was loaded and what could not be. Default: none.
	Metrics *Metrics
	// Logger is told of each change once, and of what is wrong with it. Default: none.
	Logger *slog.Logger
}

// A Source reads the files of a directory and follows their changes. What is wrong with them leaves the config before in
// place.
type Source struct {
	cfg SourceConfig

	mu   sync.Mutex
	last *snapshot // what was read last, good or not
	bad  string    // what was wrong with it; empty if it was good
	good bool      // whether there was ever a config
}

// NewSource returns a source that has read nothing. The error is about the config; that of the files comes from Load.
func NewSource(cfg SourceConfig) (*Source, error) {
	if cfg.Set == nil {
		return nil, errors.New("envoy: nobody wants the config: give NewSource a Set, such as that of a Service")
	}
	if _, err := algorithmNamed(cfg.Options.Algorithm); err != nil {
		return nil, err
	}
	if err := isDirectory(cfg.Dir); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Source{cfg: cfg}, nil
}

// Load reads the files if they are not as they were when they were last read. The error says what is wrong with them.
func (s *Source) Load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := read(s.cfg.Dir)
	if err == nil {
		if s.last != nil && s.last.equal(now) && s.bad == "" {
			return nil
		}
		s.last = now
		var c *Config
		if c, err = Parse(now.files, s.cfg.Options); err == nil {
			s.loaded(c, now)
			return nil
		}
	}
	if s.bad == err.Error() {
		return err // it was told
	}
	s.bad = err.Error()
	if m := s.cfg.Metrics; m != nil {
		m.loadErrors.Add(1)
	}
	consequence := "the limits before go on"
	if !s.good {
		consequence = "nothing is decided until this is set right"
	}
	s.cfg.Logger.Error("the files of "+s.cfg.Dir+" cannot be used, and "+consequence, slog.Any("error", err))
	return err
}

func (s *Source) loaded(c *Config, from *snapshot) {
	s.bad, s.good = "", true
	if m := s.cfg.Metrics; m != nil {
		m.loadSuccesses.Add(1)
	}
	for _, w := range c.Warnings() {
		s.cfg.Logger.Warn(w)
	}
	for _, name := range from.skipped {
		s.cfg.Logger.Warn("a file is not read, since its name ends neither in .yaml nor in .yml", slog.String("file", name))
	}
	s.cfg.Set(c)
	s.cfg.Logger.Info("limits loaded", slog.String("dir", s.cfg.Dir), slog.Int("files", len(from.files)),
		slog.Int("limits", c.Limits()), slog.Any("domains", c.Domains()))
}

// Problem returns what is wrong with the files as they are now; empty if nothing is.
func (s *Source) Problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad
}

// Run follows the files until the context ends. The first [Source.Load] is the caller's.
func (s *Source) Run(ctx context.Context) {
	watch(ctx, s.cfg.Dir, func() {
		_ = s.Load() // it was logged and counted
	})
}

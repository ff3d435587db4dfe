package hotkeys

import (
	"errors"
	"fmt"
	"time"
)

// Config says how a [Tracker] works. The zero Config, like a nil one, is the documented default.
type Config struct {
	// Window is how fast counts fade: what was observed a time t ago counts e^(-t/Window). At least 1 s. Default: 1 min.
	Window time.Duration
	// Keys is how many keys are watched, for each rule and order; rounded up to a multiple of 8. At most 65,536.
	// A watched key takes about 100 bytes and its name, of which at most 200 bytes are kept; cells take 32 KiB besides.
	// Default: 256, some 60 KiB.
	Keys int
	// Rules is how many rules have keys of their own; the others share those of one. A rule that has faded leaves its place.
	// At most 65,536. Default: 256.
	Rules int
}

const (
	defaultWindow = time.Minute
	defaultKeys   = 256
	defaultRules  = 256
	mostKeys      = 1 << 16
	mostRules     = 1 << 16
)

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Window != 0 && c.Window < time.Second {
		errs = append(errs, fmt.Errorf("hotkeys: a window of %v: at least 1s, or 0 for the default of %v", c.Window, defaultWindow))
	}
	if c.Keys < 0 || c.Keys > mostKeys {
		errs = append(errs, fmt.Errorf("hotkeys: %d keys: 1 to %d, or 0 for the default of %d", c.Keys, mostKeys, defaultKeys))
	}
	if c.Rules < 0 || c.Rules > mostRules {
		errs = append(errs, fmt.Errorf("hotkeys: %d rules: 1 to %d, or 0 for the default of %d", c.Rules, mostRules, defaultRules))
	}
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	if c.Keys == 0 {
		c.Keys = defaultKeys
	}
	if c.Rules == 0 {
		c.Rules = defaultRules
	}
	return c, errors.Join(errs...)
}

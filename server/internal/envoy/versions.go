package envoy

import "slices"

// keep gives limits that are as they were in the config before their former version, so that
// a file that was only touched changes nothing in the store.
func (c *Config) keep(before *Config) {
	for name, d := range c.domains {
		if was := before.domains[name]; was != nil && c.algorithm == before.algorithm {
			d.root.keep(&was.root)
		}
	}
}

func (n *node) keep(was *node) {
	if n.limit != nil && was.limit != nil && n.limit.limit == was.limit.limit {
		n.limit.version = was.limit.version
	}
	for e, c := range n.exact {
		if w := was.exact[e]; w != nil {
			c.keep(w)
		}
	}
	for key, c := range n.bare {
		if w := was.bare[key]; w != nil {
			c.keep(w)
		}
	}
	for key, list := range n.wildcards {
		for _, c := range list {
			if i := slices.IndexFunc(was.wildcards[key], func(w *node) bool { return w.value == c.value }); i >= 0 {
				c.keep(was.wildcards[key][i])
			}
		}
	}
}

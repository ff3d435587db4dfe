package clientip

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

// Config says whom to believe. The zero Config, like a nil one, believes nobody: the client is the socket's address.
type Config struct {
	// Trusted are the proxies whose word is taken: addresses ("192.0.2.7"), prefixes ("10.0.0.0/8"), or the names
	// "loopback", "private" (RFC 1918 and fc00::/7) and "unix" (the other end of a Unix socket, which has no address).
	// The client is the first address from the right that is none of these.
	// Prohibited: a prefix of length 0, which would trust everyone to say who they are. Not together with Hops.
	// Default: none.
	Trusted []string
	// Hops is how many proxies every request passes, where their addresses are not known: 1 for a single load balancer.
	// The client is the entry that the first of these wrote: the Hops-th from the right. Who can reach this process
	// past one of them can forge it: prefer Trusted. From 1 to 16. Default: 0, none.
	Hops int
	// Header is what the proxies write: "X-Forwarded-For", "Forwarded" (RFC 7239), or another that holds a single address,
	// such as "CF-Connecting-IP", which needs Trusted. It must be one that the proxies overwrite or append to: a header
	// that they merely pass on is the client's own. Not without Trusted or Hops. Default: "X-Forwarded-For".
	Header string
	// IPv6Prefix is how many leading bits of an IPv6 address make a client, 32 to 128. Beyond 64, a customer with a /64 can
	// be 2^64 clients. Default: 64.
	IPv6Prefix int
	// Logger is warned, once for each kind, of what makes everyone one client or everyone a new one; see [Warning].
	// Default: [slog.Default], as it is at the time; one with [slog.DiscardHandler] keeps it silent.
	Logger *slog.Logger
}

const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
)

// New returns a resolver. A nil config is the default. The error joins all that is wrong with the config.
func New(cfg *Config) (*Resolver, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	r := &Resolver{hops: cfg.Hops, bits: cfg.IPv6Prefix, header: forwardedFor, logger: cfg.Logger, keys: newKeyCache()}
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("clientip: "+format, args...)) }

	for _, t := range cfg.Trusted {
		if err := r.trust(t); err != nil {
			errs = append(errs, err)
		}
	}
	if cfg.Hops < 0 || cfg.Hops > 16 {
		fault("Hops %d must be from 1 to 16, or 0 for none", cfg.Hops)
	}
	if cfg.Hops != 0 && len(cfg.Trusted) != 0 {
		fault("Trusted and Hops are both set: keep Trusted where the proxies' addresses are known, Hops where they are not")
	}
	if cfg.Header != "" {
		r.header = textproto.CanonicalMIMEHeaderKey(cfg.Header)
		switch {
		case strings.ContainsFunc(cfg.Header, func(c rune) bool { return !isToken(c) }):
			fault(`Header %q is not the name of a header: write one such as "X-Forwarded-For"`, cfg.Header)
		case cfg.Hops == 0 && len(cfg.Trusted) == 0:
			fault("Header %s is set, but nobody is trusted to write it: name the proxies in Trusted, or count them in Hops", r.header)
		case cfg.Hops != 0 && r.header != forwardedFor && r.header != forwarded:
			fault("Header %s holds a single address, so that there are no Hops to count: name the proxies in Trusted", r.header)
		}
	}
	switch {
	case r.bits == 0:
		r.bits = 64
	case r.bits < 32 || r.bits > 128:
		fault("IPv6Prefix %d must be from 32 to 128, or 0 for 64", r.bits)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if r.bits > 64 {
		r.warn(WarnWidePrefix, "IPv6Prefix", r.bits)
	}
	return r, nil
}

// trust adds a proxy or a group of them.
func (r *Resolver) trust(t string) error {
	switch t {
	case "unix":
		r.unix = true
		return nil
	case "loopback":
		r.trusted = append(r.trusted, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
		return nil
	case "private":
		for _, p := range []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"} {
			r.trusted = append(r.trusted, netip.MustParsePrefix(p))
		}
		return nil
	}
	p, err := netip.ParsePrefix(t)
	if err != nil {
		a, err := netip.ParseAddr(t)
		if err != nil || a.Zone() != "" {
			return fmt.Errorf(`clientip: Trusted %q is neither an address nor a prefix: write "192.0.2.7", "10.0.0.0/8", "loopback", "private" or "unix"`, t)
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if p.Addr().Is4In6() { // addresses are compared unmapped
		if p.Bits() < 96 {
			return fmt.Errorf("clientip: Trusted %q reaches beyond the mapped IPv4 addresses: write an IPv4 prefix", t)
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p.Bits() == 0 {
		return fmt.Errorf("clientip: Trusted %q trusts everyone to say who they are: name the proxies' own prefix, or count them in Hops", t)
	}
	if p != p.Masked() {
		return fmt.Errorf("clientip: Trusted %q has bits set beyond its length: write %q, or the address alone", t, p.Masked())
	}
	r.trusted = append(r.trusted, p)
	return nil
}

func (r *Resolver) isTrusted(a netip.Addr) bool {
	return slices.ContainsFunc(r.trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

// isToken reports whether c may be in the name of a header.
func isToken(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c < 128 && strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

package clientip

import (
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
)

// Warning is a kind of misuse, of which the logger is told once.
type Warning uint8

// The kinds of warnings, by the harm that they do.
const (
	// WarnUntrusted: a forwarding header came from a peer that is not trusted. If that is a proxy, all who come through it
	// are one client: trust it. If it is not, somebody tries to be somebody else, and is not believed.
	WarnUntrusted Warning = iota
	// WarnHeaderMissing: a trusted proxy did not say for whom it speaks. All who come through it are one client.
	WarnHeaderMissing
	// WarnTooFewHops: a request came through fewer proxies than Hops says. All such from one proxy are one client.
	WarnTooFewHops
	// WarnUnreadable: what a trusted proxy wrote is no address. All such from one proxy are one client.
	WarnUnreadable
	// WarnNoAddress: the peer has no address, as on a Unix socket, and is not trusted. No client is known.
	WarnNoAddress
	// WarnWidePrefix: more than 64 bits of IPv6 make a client, so that a customer can be a new one with each request.
	WarnWidePrefix
	warningKinds
)

var warningTexts = [...]string{
	WarnUntrusted: "clientip: a forwarding header came from a peer that is not trusted, and was ignored: " +
		"if it is a proxy, all clients behind it share one bucket until Config.Trusted names it",
	WarnHeaderMissing: "clientip: a trusted proxy did not write the header, so that all clients behind it share one bucket: " +
		"make it write the header, or name in Config.Header the one that it does write",
	WarnTooFewHops: "clientip: the header has fewer entries than Config.Hops, so that the socket's address was taken: " +
		"all clients behind one proxy share one bucket until Hops is how many proxies there are",
	WarnUnreadable: "clientip: an entry of the header is no address, so that the address of who wrote it was taken: " +
		"clients that it stands for share one bucket",
	WarnNoAddress: `clientip: the peer has no address, so that its client is unknown: put "unix" into Config.Trusted if it is a proxy on a Unix socket`,
	WarnWidePrefix: "clientip: a customer usually has a /64 of IPv6, and can be a new client with each request: " +
		"an IPv6Prefix of at most 64 prevents that",
}

// warnings remembers of what was warned.
type warnings [warningKinds]atomic.Bool

// untold reports whether there is something to tell: what goes with it costs an allocation, and each request may have it.
func (r *Resolver) untold(kind Warning) bool { return !r.warned[kind].Load() }

// warn tells the logger, unless it was told of the kind before.
func (r *Resolver) warn(kind Warning, args ...any) {
	if r.warned[kind].Load() || r.warned[kind].Swap(true) {
		return
	}
	l := r.logger
	if l == nil {
		l = slog.Default() //nolint:forbidigo // a warning that nobody gets helps nobody; it is the one of now, as programs set it late
	}
	l.Warn(warningTexts[kind], args...)
}

// lookForForwarding warns of headers that proxies write where nobody is trusted to.
func (r *Resolver) lookForForwarding(socket netip.Addr, lines Header) {
	if lines == nil || r.warned[WarnUntrusted].Load() {
		return
	}
	for _, name := range [...]string{forwardedFor, forwarded, r.header} {
		if len(lines.Values(name)) > 0 {
			r.warn(WarnUntrusted, "header", name, "peer", socket)
			return
		}
	}
}

// shorten makes a hostile entry fit for a log.
func shorten(s string) string {
	if len(s) > 64 {
		s = s[:64] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

package clientip

import (
	"log/slog"
	"net/netip"
)

// A Resolver finds the client of a request. It is safe for concurrent use; create it with [New].
type Resolver struct {
	trusted []netip.Prefix
	unix    bool
	hops    int
	header  string // canonical
	bits    int
	logger  *slog.Logger
	warned  warnings
	keys    *keyCache
}

// Header is where header lines come from; [net/http.Header] is one.
type Header interface {
	// Values returns all lines of the header of this name, which is canonical, in their order.
	Values(name string) []string
}

// Lines are the lines of the one header that the resolver reads, for callers that have them as strings. Where a log has
// joined several lines by commas, that is as good.
type Lines []string

// Values returns the lines, whatever the name.
func (l Lines) Values(string) []string { return l }

// Reads returns the canonical name of the header that the resolver reads; empty if it reads none.
func (r *Resolver) Reads() string {
	if r.hops == 0 && len(r.trusted) == 0 && !r.unix {
		return ""
	}
	return r.header
}

// maxEntries bounds how many proxies a request can have come through: a longer list is somebody's mischief.
const maxEntries = 64

// Addr returns the client's address, an IPv4 one unmapped, without a zone; not valid where it cannot be known, as at the
// other end of a Unix socket. Remote is the socket's address as in [net/http.Request.RemoteAddr], with or without a
// port. Lines may be nil.
func (r *Resolver) Addr(remote string, lines Header) netip.Addr {
	a, _ := r.find(remote, lines)
	return a
}

// Key returns what names the client's bucket: the address of an IPv4 client, and the first address of the prefix of
// an IPv6 one; false where the client cannot be known. It is a valid address in its shortest form.
func (r *Resolver) Key(remote string, lines Header) (string, bool) {
	a, text := r.find(remote, lines)
	if !a.IsValid() {
		return "", false
	}
	if text != "" {
		return text, true
	}
	return r.KeyOf(a), true
}

// KeyOf returns what names the bucket of an address.
func (r *Resolver) KeyOf(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(r.bits); err == nil {
			a = p.Addr()
		}
	}
	return r.keys.text(a)
}

// find returns the client's address, and its key where that is a part of what was read.
func (r *Resolver) find(remote string, lines Header) (netip.Addr, string) {
	socket, text := parseAddr(remote)
	believed := r.hops > 0 || r.isTrusted(socket)
	if !socket.IsValid() {
		believed = r.hops > 0 || r.unix
	}
	if !believed {
		r.lookForForwarding(socket, lines)
		if !socket.IsValid() {
			if r.untold(WarnNoAddress) {
				r.warn(WarnNoAddress, "remote", remote)
			}
		}
		return socket, text
	}
	var values []string
	if lines != nil {
		values = lines.Values(r.header)
	}
	if len(values) == 0 {
		if r.untold(WarnHeaderMissing) {
			r.warn(WarnHeaderMissing, "header", r.header, "peer", remote)
		}
		return socket, text
	}
	switch {
	case r.hops > 0:
		return r.hop(socket, text, values)
	case r.header == forwardedFor || r.header == forwarded:
		return r.walk(socket, text, values)
	}
	return r.single(socket, text, values)
}

// walk goes from the right to the first address that is not trusted. What cannot be read ends the way: the client is
// then who handed it over.
func (r *Resolver) walk(at netip.Addr, text string, values []string) (netip.Addr, string) {
	it := entries{lines: values, forwarded: r.header == forwarded}
	for range maxEntries {
		entry, ok := it.next()
		if !ok {
			return at, text // all of them are trusted: the request comes from among them
		}
		a, t := it.parse(entry)
		if !a.IsValid() {
			if r.untold(WarnUnreadable) {
				r.warn(WarnUnreadable, "header", r.header, "entry", shorten(entry))
			}
			return at, text
		}
		if at, text = a, t; !r.isTrusted(a) {
			return at, text
		}
	}
	if r.untold(WarnUnreadable) {
		r.warn(WarnUnreadable, "header", r.header, "entry", "more entries than proxies can have written")
	}
	return at, text
}

// hop takes the entry that the first of the proxies wrote.
func (r *Resolver) hop(socket netip.Addr, text string, values []string) (netip.Addr, string) {
	it := entries{lines: values, forwarded: r.header == forwarded}
	var entry string
	for range r.hops {
		var ok bool
		if entry, ok = it.next(); !ok {
			if r.untold(WarnTooFewHops) {
				r.warn(WarnTooFewHops, "header", r.header, "hops", r.hops)
			}
			return socket, text
		}
	}
	a, t := it.parse(entry)
	if !a.IsValid() {
		if r.untold(WarnUnreadable) {
			r.warn(WarnUnreadable, "header", r.header, "entry", shorten(entry))
		}
		return socket, text
	}
	return a, t
}

// single takes the address that is all there is in the header. Two of them mean that the proxy let the client's own pass.
func (r *Resolver) single(socket netip.Addr, text string, values []string) (netip.Addr, string) {
	if len(values) == 1 {
		if a, t := parseAddr(trim(values[0])); a.IsValid() && !a.IsUnspecified() {
			return a, t
		}
	}
	if r.untold(WarnUnreadable) {
		r.warn(WarnUnreadable, "header", r.header, "entry", shorten(values[len(values)-1]))
	}
	return socket, text
}

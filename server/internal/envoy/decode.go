package envoy

import (
	"unicode/utf8"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The tags, number and type of a field, of what proxies send. Whatever has another one is the library's to read.
const (
	tagDomain      = 1<<3 | uint64(protowire.BytesType)
	tagDescriptors = 2<<3 | uint64(protowire.BytesType)
	tagHits        = 3<<3 | uint64(protowire.VarintType)

	tagEntries  = 1<<3 | uint64(protowire.BytesType)
	tagOwnHits  = 3<<3 | uint64(protowire.BytesType)
	tagNegative = 4<<3 | uint64(protowire.VarintType)

	tagKey   = 1<<3 | uint64(protowire.BytesType)
	tagValue = 2<<3 | uint64(protowire.BytesType)

	tagWrapped = 1<<3 | uint64(protowire.VarintType)
)

// span is a part of a message by its place, so that the same part can be found in a copy.
type span struct{ from, to int }

// field takes the first field off the part, whose number or whose bytes it returns. It is not ok for all that is not whole
// and of one of these two types.
func (s *span) field(b []byte) (tag, varint uint64, part span, ok bool) {
	tag, ok = s.varint(b)
	if !ok {
		return 0, 0, span{}, false
	}
	switch protowire.Type(tag & 7) {
	case protowire.VarintType:
		varint, ok = s.varint(b)
		return tag, varint, span{}, ok
	case protowire.BytesType:
		length, ok := s.varint(b)
		if !ok || length > uint64(s.to-s.from) {
			return 0, 0, span{}, false
		}
		part = span{s.from, s.from + int(length)}
		s.from = part.to
		return tag, 0, part, true
	case protowire.Fixed32Type, protowire.Fixed64Type, protowire.StartGroupType, protowire.EndGroupType:
	}
	return 0, 0, span{}, false
}

func (s *span) varint(b []byte) (uint64, bool) {
	if s.from < s.to && b[s.from] < 0x80 { // nearly all are of one byte
		s.from++
		return uint64(b[s.from-1]), true
	}
	v, n := protowire.ConsumeVarint(b[s.from:s.to])
	if n < 0 {
		return 0, false
	}
	s.from += n
	return v, true
}

func (s *span) more() bool { return s.from < s.to }

// counts is how much a message has of what there may be many of.
type counts struct{ descriptors, entries, hits int }

// count counts what a message has, without a look at what is in it.
func count(b []byte) (n counts, ok bool) {
	for rest := (span{0, len(b)}); rest.more(); {
		tag, _, part, ok := rest.field(b)
		if !ok {
			return counts{}, false
		}
		if tag != tagDescriptors {
			continue
		}
		n.descriptors++
		for part.more() {
			tag, _, _, ok := part.field(b)
			if !ok {
				return counts{}, false
			}
			switch tag {
			case tagEntries:
				n.entries++
			case tagOwnHits:
				n.hits++
			}
		}
	}
	return n, true
}

// received is a request and what it is made of: few arrays of many messages each, and one text. It can be used again, when
// nobody has the request any more. The text is made anew for each request: whatever keeps a part of it, such as a key that
// the store is still to be told of, has it for as long as it likes, and whoever keeps it for longer than the request clones it.
type received struct {
	request ratelimitv3.RateLimitRequest
	// What the request is made of, as many as it has.
	descriptors []commonv3.RateLimitDescriptor
	list        []*commonv3.RateLimitDescriptor
	entries     []commonv3.RateLimitDescriptor_Entry
	pointers    []*commonv3.RateLimitDescriptor_Entry
	hits        []wrapperspb.UInt64Value
}

// forget makes the request an empty one that keeps nothing alive but its own arrays.
func (r *received) forget() {
	r.request.Reset()
	// All of a message goes, with what the codec never sets and an interceptor might have.
	r.descriptors = emptied(r.descriptors)
	r.list = emptied(r.list)
	r.entries = emptied(r.entries)
	r.pointers = emptied(r.pointers)
	r.hits = emptied(r.hits)
}

func emptied[T any](list []T) []T {
	clear(list)
	return list[:0]
}

// sized returns room for n, of which all is zero, in place of what is empty.
func sized[T any](empty []T, n int) []T {
	if n > cap(empty) {
		return make([]T, n)
	}
	return empty[:n]
}

// decode makes the request what the message says, as proto.Unmarshal does, and reports whether it could. Where it could not,
// the message is the library's to read from its beginning, or to refuse: it is invalid, or has what proxies do not usually
// send, such as a limit, fields that we do not know, or hits in two pieces that are to be merged.
func (r *received) decode(b []byte) bool {
	r.forget()
	n, ok := count(b)
	if !ok {
		return false
	}
	r.descriptors = sized(r.descriptors, n.descriptors)
	r.list = sized(r.list, n.descriptors)
	r.entries = sized(r.entries, n.entries)
	r.pointers = sized(r.pointers, n.entries)
	r.hits = sized(r.hits, n.hits)
	d := decoder{b: b, text: string(b), descriptors: r.descriptors, entries: r.entries, pointers: r.pointers, hits: r.hits}
	if n.descriptors > 0 {
		r.request.Descriptors = r.list[:0:n.descriptors]
	}
	return d.request(&r.request)
}

// decoder fills in the parts of a request.
type decoder struct {
	b    []byte
	text string // the same
	// What is left to be used:
	descriptors []commonv3.RateLimitDescriptor
	entries     []commonv3.RateLimitDescriptor_Entry
	pointers    []*commonv3.RateLimitDescriptor_Entry
	hits        []wrapperspb.UInt64Value
}

func (d *decoder) request(req *ratelimitv3.RateLimitRequest) bool {
	for rest := (span{0, len(d.b)}); rest.more(); {
		tag, varint, part, ok := rest.field(d.b)
		if !ok {
			return false
		}
		switch tag {
		case tagDomain:
			req.Domain, ok = d.string(part)
		case tagDescriptors:
			desc := &d.descriptors[0]
			d.descriptors = d.descriptors[1:]
			req.Descriptors = append(req.Descriptors, desc)
			ok = d.descriptor(desc, part)
		case tagHits:
			req.HitsAddend = uint32(varint) // as protobuf does it: the upper half is dropped
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return true
}

func (d *decoder) descriptor(desc *commonv3.RateLimitDescriptor, rest span) bool {
	n := 0
	for rest.more() {
		tag, varint, part, ok := rest.field(d.b)
		if !ok {
			return false
		}
		switch tag {
		case tagEntries:
			d.pointers[n] = &d.entries[n]
			ok = d.entry(d.pointers[n], part)
			n++
		case tagOwnHits:
			if desc.GetHitsAddend() != nil {
				return false
			}
			desc.HitsAddend = &d.hits[0]
			d.hits = d.hits[1:]
			ok = d.wrapped(desc.GetHitsAddend(), part)
		case tagNegative:
			desc.IsNegativeHits = protowire.DecodeBool(varint)
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	if n > 0 {
		desc.Entries = d.pointers[:n:n]
		d.pointers, d.entries = d.pointers[n:], d.entries[n:]
	}
	return true
}

func (d *decoder) entry(e *commonv3.RateLimitDescriptor_Entry, rest span) bool {
	for rest.more() {
		tag, _, part, ok := rest.field(d.b)
		if !ok {
			return false
		}
		switch tag {
		case tagKey:
			e.Key, ok = d.string(part)
		case tagValue:
			e.Value, ok = d.string(part)
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return true
}

func (d *decoder) wrapped(v *wrapperspb.UInt64Value, rest span) bool {
	for rest.more() {
		tag, varint, _, ok := rest.field(d.b)
		if !ok || tag != tagWrapped {
			return false
		}
		v.Value = varint
	}
	return true
}

// string returns a text of the message, which has to be valid.
func (d *decoder) string(part span) (string, bool) {
	s := d.text[part.from:part.to]
	return s, utf8.ValidString(s)
}

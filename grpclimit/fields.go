package grpclimit

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tidegate-go/tidegate"
)

// maxInteger is the largest integer of a structured field.
const maxInteger = 999_999_999_999_999

// addFields adds what the decision tells of its limit, in the syntax of draft-ietf-httpapi-ratelimit-headers-11; nothing
// where nothing limits. The window is 0 where it is not known.
func addFields(md metadata.MD, d *tidegate.Decision, window time.Duration) {
	if d.Limit == tidegate.NoLimit {
		return
	}
	name := quoted(d.Rule)
	policy := name + ";q=" + integer(d.Limit)
	if window > 0 {
		policy += ";w=" + integer(seconds(window))
	}
	left := name + ";r=" + integer(d.Remaining)
	// A refused caller is told when it can pass, which is what retry-after says; the bucket is full only later.
	reset := d.ResetAfter
	if !d.Allowed && d.RetryAfter != tidegate.Never {
		reset = d.RetryAfter
	}
	if reset != tidegate.Never {
		left += ";t=" + integer(seconds(reset))
	}
	md["ratelimit-policy"] = append(md["ratelimit-policy"], policy)
	md["ratelimit"] = append(md["ratelimit"], left)
}

func integer(n int64) string { return strconv.FormatInt(min(n, maxInteger), 10) }

// quoted writes a string of a structured field. It holds printable ASCII alone; what is not becomes "%XX".
func quoted(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

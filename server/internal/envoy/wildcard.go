package envoy

import "strings"

// wildcard is a value with * in it, each of which stands for any text, also none. Every other sign stands for itself.
type wildcard struct {
	text  string
	parts []string // what stands between the *, at least two
}

func newWildcard(text string) wildcard { return wildcard{text, strings.Split(text, "*")} }

// matches reports whether the value is the parts in their order, none of which share a sign: ab matches a*b, a does not
// match a*a.
func (w *wildcard) matches(value string) bool {
	last := len(w.parts) - 1
	rest, ok := strings.CutPrefix(value, w.parts[0])
	if !ok {
		return false
	}
	for _, part := range w.parts[1:last] {
		_, rest, ok = strings.Cut(rest, part) // the first place leaves the most for those that follow
		if !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, w.parts[last])
}

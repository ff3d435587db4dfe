package tidegate

import (
	"fmt"
	"strings"
)

// notARate says what the first word may have been meant to be.
func notARate(word string) error {
	e := limitErrorf("%q is not a rate", word)
	switch near := nearest(strings.ToLower(word)); near {
	case "none", "unlimited":
		return e.hint(fmt.Sprintf("did you mean %q?", near))
	case "concurrent":
		return e.hint(`say how many, as in "20 concurrent"`)
	}
	return e.hint(`write a number and a period, as in "10/s burst 20"`)
}

// notAnOption says what the word may have been meant to be.
func notAnOption(word string) error {
	e := limitErrorf("%q is not an option", word)
	switch near := nearest(strings.ToLower(word)); near {
	case "":
		return e.hint(`the options are burst, queue, slices, warmup, tz, ttl, lease and shards, and the algorithms, as in "10/s burst 20"`)
	case "none", "unlimited":
		return e.hint(fmt.Sprintf("write %q alone", near))
	case "concurrent":
		return e.hint(`permits have no period, as in "20 concurrent"`)
	default:
		example := exampleOf(near)
		if example == "" {
			example = "10/s " + near
		}
		return e.hint(fmt.Sprintf("did you mean %q, as in %q?", near, example))
	}
}

// notYet says that a part of the grammar is to come.
func notYet(option, example string) error {
	return limitErrorf("%s is not yet supported", option).hint(fmt.Sprintf("leave it out, as in %q", example))
}

// nearest returns the option or algorithm that word is most likely a slip of: one letter more, less or other.
func nearest(word string) string {
	var words []string
	for _, o := range options {
		words = append(words, o.name)
	}
	for _, w := range append(words, algorithmNames[:]...) {
		if distance(word, w) < 2 || len(word) >= 3 && strings.HasPrefix(w, word) {
			return w
		}
	}
	return ""
}

// distance is 0 or 1 as the words are the same or differ by one letter, else 2.
func distance(a, b string) int {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 {
		return 2
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch {
	case i == len(a) && len(a) == len(b):
		return 0
	case len(a) == len(b) && a[i+1:] == b[i+1:], len(a) < len(b) && a[i:] == b[i+1:]:
		return 1
	}
	return 2
}

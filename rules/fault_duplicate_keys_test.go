package rules

import (
	"strings"
	"testing"
)

// Of two keys of one name the last won, a second document was ignored, and line ends of Windows or a mark of the byte order
// were not expected (yaml.v2 without its strict mode, as envoyproxy/ratelimit used it).
func TestFaultDuplicateKeys(t *testing.T) {
	good := one("10/s")
	for _, text := range []string{strings.ReplaceAll(good, "\n", "\r\n"), "\ufeff" + good, "---\n" + good, good + "...\n", "# x\n" + good + "\n\n"} {
		mustParse(t, text)
	}
	for text, want := range map[string]string{
		good + "    limit: 1/s\n":                       "f:5:5: the key \"limit\" is given twice (the first is at line 4",
		good + "---\n" + good:                           "f:6:1: a second document",
		strings.ReplaceAll(good, "    ", "\t"):          "f:4:1: not YAML",
		"version: 1\n" + good:                           "f:2:1: the key \"version\" is given twice (the first is at line 1",
		good + "  - {name: b, limit: 1/s, 'name': c}\n": "the key \"name\" is given twice",
	} {
		if _, err := Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

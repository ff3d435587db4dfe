package live

import (
	"testing"

	"github.com/tidegate-go/tidegate/rules/source"
)

// TestBlankPolicy: a push with fields that are blank, or null, or of units that there are not, reaches every replica within a
// second. Each refuses it and goes on with the rules that it has.
func TestBlankPolicy(t *testing.T) {
	e := newEngine(t, text(1))
	counts := &counted{}
	l, err := New(e, NewMemory([]byte(text(1)), "test"), &Config{Count: counts.count})
	do(t, err)
	blanks := []string{
		"", " ", "\n", "null", "{}", "[]", "version:", "version: 1", "version: 1\nrules:", "version: 1\nrules: null", "version: 1\nrules: [null]",
		"version: 1\nrules: [{}]", "version: 1\nrules: [{name: r}]", "version: 1\nrules: [{name: r, limit: }]", "version: 1\nrules: [{name: r, limit: ''}]",
		"version: 1\nrules: [{name: , limit: 1/s}]", "version: 1\nrules: [{name: r, limit: 1/}]", "version: 1\nrules: [{name: r, limit: {}}]",
		"version: 1\nrules: [{name: r, limit: 1/s, overrides: [null]}]", "version: 1\nrules: [{name: r, limit: 1/s, match: {path: }}]",
	}
	for i, blank := range blanks {
		l.deliver(source.Document{Text: []byte(blank), Version: int64(i + 1), Origin: "test"}, nil)
		if limit(e) != 1 || l.Status().Loaded || l.Status().Problem == nil {
			t.Errorf("%q is taken: %+v", blank, l.Status())
		}
	}
	if counts.n[Invalid] != len(blanks) {
		t.Errorf("%v, want %d to be invalid", counts.n, len(blanks))
	}
}

package tidegate_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Imports run one way: see DESIGN and docs/architecture.md. The linter looks at each file; this looks at what is
// compiled in, at any depth, tests left aside.
func TestImports(t *testing.T) {
	const root = "github.com/tidegate-go/tidegate"
	for _, test := range []struct {
		room    string
		allowed []string // besides the standard library and the room itself; "m/..." is all that is below m
	}{
		{".", nil}, // the root package imports the standard library alone
		{"./downstream", nil},
		{"./internal/key", nil},
		{"./internal/algo", []string{root}},
		{"./internal/hotkeys", nil},
		{"./internal/redistest", nil},
		{"./internal/scenario", []string{root, "github.com/cockroachdb/datadriven", "github.com/pmezard/go-difflib/difflib"}},
		{"./memstore", []string{root, root + "/internal/algo"}},
		{"./queue", []string{root}},
		{"./httplimit", []string{root, root + "/httplimit/clientip", root + "/internal/afterwards"}},
		{"./internal/afterwards", nil},
		{"./httplimit/clientip", nil},
		{"./storetest", []string{root}},
		{"./rules", []string{root, root + "/internal/key", "go.yaml.in/yaml/v4", "go.yaml.in/yaml/v4/..."}},
	} {
		t.Run(test.room, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", test.room)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("go list: %v\n%s", err, stderr.String())
			}
			self := root + strings.TrimPrefix(test.room, ".")
			found := false
			for path := range strings.FieldsSeq(string(out)) {
				found = found || path == self
				below := func(allowed string) bool {
					parent, all := strings.CutSuffix(allowed, "...")
					return all && strings.HasPrefix(path, parent)
				}
				if path != self && !slices.Contains(test.allowed, path) && !slices.ContainsFunc(test.allowed, below) {
					t.Errorf("%s imports %s", self, path)
				}
			}
			if !found {
				t.Errorf("go list does not name %s itself: %q", self, out)
			}
		})
	}
}

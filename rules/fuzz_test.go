package rules

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// FuzzParse: whatever the file, there is either a set, whose text is read back to the same, or errors with a place.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"../examples/rules/*.yaml", "testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("f", data)
		if err == nil {
			checkMarshal(t, s)
			if out, err := Absolute("f", data, pushed, nil); err != nil || string(out) != string(data) {
				t.Fatalf("absolute: %v", err)
			}
			return
		}
		checkErrors(t, err)
	})
}

// FuzzAbsolute: what it returns is a good file, whose limits end at moments.
func FuzzAbsolute(f *testing.F) {
	for _, limit := range []string{"unlimited until 3s", "{rate: 1/s, until: 2d}", "'1/s until 1h'", "1/s until 2027-01-01T00:00:00Z"} {
		f.Add([]byte(one(limit)))
		f.Add([]byte("version: 1\nrules: [{name: b, limit: " + limit + ", then: none}]"))
	}
	former, err := Parse("former", []byte(one("5/s")))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Absolute("f", data, pushed, former)
		if err != nil {
			checkErrors(t, err)
			return
		}
		if _, err := Parse("f", out); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}

func checkErrors(t *testing.T, err error) {
	t.Helper()
	es, ok := errors.AsType[Errors](err)
	if !ok || len(es) == 0 {
		t.Fatalf("no Errors but %v", err)
	}
	for _, e := range es {
		if e.Line < 1 || e.Column < 1 || e.Problem == "" || e.Kind == "" || !utf8.ValidString(e.Error()) {
			t.Fatalf("%#v", e)
		}
	}
}

// FuzzGlob: a pattern that is taken is one that its text, escaped, is matched by.
func FuzzGlob(f *testing.F) {
	f.Add("/api/**", "/api/x")
	f.Add(`a*b\*c`, "aXb*c")
	f.Fuzz(func(t *testing.T, text, value string) {
		p, _, err := newPattern("path", text)
		if err != nil {
			return
		}
		p.fits(value)
		literal := ""
		for _, part := range p.parts {
			literal += part.literal
		}
		if !p.fits(literal) { // every wildcard may stand for nothing
			t.Fatalf("%q does not fit %q", text, literal)
		}
		if !p.covers(&p) && utf8.ValidString(text) {
			t.Fatalf("%q does not cover itself", text)
		}
	})
}

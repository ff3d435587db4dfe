package envoy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A FileError is one thing that is wrong with a file.
type FileError struct {
	File         string // as it was opened
	Line, Column int    // from 1; 0 where the whole file is meant
	Path         string // where in the file, such as descriptors[0].rate_limit.unit; empty for the file
	Problem      string // what is wrong
	Hint         string // what to write instead
}

// Error returns one line: the place, what is wrong and what to write instead.
func (f *FileError) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
	}
	b.WriteString(": ")
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Problem)
	if f.Hint != "" {
		b.WriteString(": " + f.Hint)
	}
	return b.String()
}

// faults are all that is wrong with some files, in the order of their places.
type faults []*FileError

// err joins the faults; nil if there are none.
func (fs faults) err() error {
	slices.SortStableFunc(fs, func(a, b *FileError) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	errs := make([]error, 0, len(fs))
	for _, f := range fs {
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}

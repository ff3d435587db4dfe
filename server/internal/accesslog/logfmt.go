package accesslog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-logfmt/logfmt"
)

// logfmtFormat reads key=value pairs, as Heroku's router and many loggers write them.
type logfmtFormat struct{ time string }

// Read implements [Format].
func (f *logfmtFormat) Read(line string, e *Entry) error {
	e.reset(16)
	dec := logfmt.NewDecoderSize(strings.NewReader(line), len(line)+64)
	if !dec.ScanRecord() {
		if err := dec.Err(); err != nil {
			return err
		}
		return errors.New("the line is empty")
	}
	for dec.ScanKeyval() {
		if name := string(dec.Key()); dec.Value() != nil {
			if err := e.named(name, string(dec.Value()), f.time); err != nil {
				return fmt.Errorf("%s: %w", quoted(name), err)
			}
		}
	}
	if err := dec.Err(); err != nil {
		if se, ok := errors.AsType[*logfmt.SyntaxError](err); ok {
			return fmt.Errorf("column %d: %s", se.Pos, se.Msg)
		}
		return err
	}
	if e.Time.IsZero() {
		return errors.New("there is no time in it: a key such as time, ts or timestamp (or name it with --map time=…)")
	}
	return nil
}

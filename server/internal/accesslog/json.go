package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonFormat reads an object a line, as nginx, Caddy, Traefik and most loggers write it. Its members are fields, those of objects
// in it with a dot between the names; the elements of an array are joined by commas, as header lines are.
type jsonFormat struct {
	time  string // the member that is the time; empty for those that are known
	dec   *jsontext.Decoder
	input bytes.Reader
}

const (
	maxDepth  = 16
	maxFields = 1000
)

var jsonOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// Read implements [Format].
func (f *jsonFormat) Read(line string, e *Entry) error {
	e.reset(24)
	if !strings.HasPrefix(strings.TrimLeft(line, " \t"), "{") {
		return fmt.Errorf("%s is no JSON object", quoted(line))
	}
	f.input.Reset([]byte(line))
	if f.dec == nil {
		f.dec = jsontext.NewDecoder(&f.input, jsonOptions...)
	} else {
		f.dec.Reset(&f.input, jsonOptions...)
	}
	if _, err := f.dec.ReadToken(); err != nil {
		return broken(err)
	}
	if err := f.object(e, "", 1); err != nil {
		return err
	}
	if _, err := f.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("more follows the JSON object: one a line is read")
	}
	if e.Time.IsZero() {
		return errors.New("there is no time in it: a member such as time, ts or timestamp (or name it with --map time=…)")
	}
	return nil
}

func broken(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the JSON object does not end in this line")
	}
	if se, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("column %d: broken JSON: %w", se.ByteOffset+1, se.Err)
	}
	return fmt.Errorf("broken JSON: %w", err)
}

// object reads members up to the end of the object.
func (f *jsonFormat) object(e *Entry, prefix string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("objects in objects, more than %d deep", maxDepth)
	}
	for {
		tok, err := f.dec.ReadToken()
		if err != nil {
			return broken(err)
		}
		if tok.Kind() == '}' {
			return nil
		}
		if len(e.Fields) > maxFields {
			return fmt.Errorf("more than %d members", maxFields)
		}
		if err := f.value(e, prefix+tok.String(), depth); err != nil {
			return err
		}
	}
}

func (f *jsonFormat) value(e *Entry, name string, depth int) error {
	tok, err := f.dec.ReadToken()
	if err != nil {
		return broken(err)
	}
	switch tok.Kind() {
	case '{':
		return f.object(e, name+".", depth+1)
	case '[':
		text, err := f.array()
		if err != nil || text == "" {
			return err
		}
		return f.field(e, name, text)
	case 'n':
		return nil
	default: // a string, a number, true or false
		return f.field(e, name, tok.String())
	}
}

func (f *jsonFormat) field(e *Entry, name, value string) error {
	if err := e.named(name, value, f.time); err != nil {
		return fmt.Errorf("member %s: %w", quoted(name), err)
	}
	return nil
}

// array joins the elements that are no arrays or objects themselves.
func (f *jsonFormat) array() (string, error) {
	var elements []string
	for {
		switch f.dec.PeekKind() {
		case ']':
			_, err := f.dec.ReadToken()
			return strings.Join(elements, ", "), err
		case '{', '[', 'n':
			if err := f.dec.SkipValue(); err != nil {
				return "", broken(err)
			}
		default:
			tok, err := f.dec.ReadToken()
			if err != nil {
				return "", broken(err)
			}
			elements = append(elements, tok.String())
		}
	}
}

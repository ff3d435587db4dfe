package source

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is the longest text that rules may have, in bytes, wherever they are from.
const MaxText = 4 << 20

// maxBy is the longest name of who makes a change, in bytes.
const maxBy = 200

// CheckPush says what is wrong with the arguments of a push, so that all editors refuse the same.
func CheckPush(text []byte, by string, expect int64) error {
	switch {
	case len(strings.TrimSpace(string(text))) == 0:
		return errors.New("the text of the rules is empty: to let everything pass, push rules that say so")
	case len(text) > MaxText:
		return TooLong("the text")
	case !utf8.Valid(text):
		return errors.New("the text of the rules is not UTF-8")
	case len(by) > maxBy || !utf8.ValidString(by) || strings.ContainsFunc(by, unicode.IsControl):
		return fmt.Errorf("who makes the change is %q: one line of at most %d bytes", shorten(by), maxBy)
	case expect < AnyVersion:
		return fmt.Errorf("version %d cannot be expected: give the one that was pulled, 0 for none, or AnyVersion", expect)
	}
	return nil
}

// TooLong is the error of a text above [MaxText], so that all who read rules say the same. Name says which text.
func TooLong(name string) error {
	return fmt.Errorf("%s is too long: rules have at most %d bytes", name, MaxText)
}

func shorten(s string) string {
	if len(s) > maxBy {
		return s[:maxBy] + "…"
	}
	return s
}

// NextVersion returns the version of a change at a time, in microseconds, after the last: always a higher one, also when
// the clock was set back.
func NextVersion(now, last int64) int64 { return max(now, last+1) }

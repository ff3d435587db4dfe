package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxLine is the longest line that is read, in bytes.
const maxLine = 1 << 20

// A Reader reads the lines of a file, packed by gzip or zstd or not. Close it when done.
type Reader struct {
	name   string
	file   io.Closer
	read   atomic.Int64 // bytes of the file
	size   int64
	info   fs.FileInfo // nil for stdin
	waits  atomic.Bool // whether the input is being read just now
	unpack func()
	lines  *bufio.Reader
	number int
	empty  bool
	long   []byte
}

// ErrLong is the error of a line that is longer than 1 MiB.
var ErrLong = errors.New("the line is longer than 1 MiB")

// Open opens a file, or stdin for a name of -. The error says in one line what is wrong: that there is no such file, that it is a
// directory, or binary.
func Open(name string, stdin io.Reader) (*Reader, error) {
	r := &Reader{name: name}
	var input io.Reader
	if name == "-" {
		r.name, input = "stdin", stdin
	} else {
		file, err := os.Open(name)
		if err != nil {
			if pe, ok := errors.AsType[*fs.PathError](err); ok {
				err = pe.Err
			}
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		r.file, input = file, file
		info, err := file.Stat()
		switch {
		case err != nil:
			_ = r.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		case info.IsDir():
			_ = r.Close()
			return nil, fmt.Errorf("%s is a directory: name the logs in it, such as %s/*.log", name, strings.TrimSuffix(name, "/"))
		case info.Mode().IsRegular():
			r.size = info.Size()
		}
		r.info = info
	}
	if err := r.begin(input); err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	return r, nil
}

// begin finds out how the input is packed, and that it is text.
func (r *Reader) begin(input io.Reader) error {
	packed := bufio.NewReaderSize(&counted{input, r}, 1<<16)
	text := io.Reader(packed)
	magic, err := packed.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(packed)
		if err != nil {
			return fmt.Errorf("broken gzip: %w", err)
		}
		text, r.unpack = z, func() { _ = z.Close() }
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<28))
		if err != nil {
			return fmt.Errorf("broken zstd: %w", err)
		}
		text, r.unpack = z, z.Close
	}
	r.lines = bufio.NewReaderSize(text, 1<<16)
	if mark, _ := r.lines.Peek(3); string(mark) == "\xef\xbb\xbf" { // that of UTF-8
		_, _ = r.lines.Discard(3)
	}
	head, err := r.firstText()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return notText(head)
}

// counted counts what is read of the input, and tells while it waits for it.
type counted struct {
	io.Reader

	r *Reader
}

func (c *counted) Read(p []byte) (int, error) {
	c.r.waits.Store(true)
	n, err := c.Reader.Read(p)
	c.r.waits.Store(false)
	c.r.read.Add(int64(n))
	return n, err
}

// Buffered reports whether there is something to read that needs not be waited for.
func (r *Reader) Buffered() bool { return r.lines.Buffered() > 0 }

// Name returns the file's name, or stdin.
func (r *Reader) Name() string { return r.name }

// Same reports whether both read one file, by whatever names.
func (r *Reader) Same(other *Reader) bool {
	return r.info != nil && other.info != nil && os.SameFile(r.info, other.info)
}

// Progress returns how many bytes of the file were read, and how many there are; 0 for stdin and the like. It may be called while
// others read.
func (r *Reader) Progress() (read, size int64) { return r.read.Load(), r.size }

// Next returns the next line without its end, and its number from 1. The error is [io.EOF] after the last, [ErrLong] for one that
// was passed over, after which reading goes on, or that of the file.
func (r *Reader) Next() (line string, number int, err error) {
	chunk, err := r.lines.ReadSlice('\n')
	if len(chunk) == 0 && err != nil {
		return "", r.number, r.failed(err)
	}
	r.number++
	if err == nil {
		return string(trimmed(chunk)), r.number, nil
	}
	r.long = append(r.long[:0], withoutZeros(chunk)...)
	for errors.Is(err, bufio.ErrBufferFull) {
		chunk, err = r.lines.ReadSlice('\n')
		if len(r.long) == 0 {
			chunk = withoutZeros(chunk)
		}
		if len(r.long) <= maxLine {
			r.long = append(r.long, chunk...)
		}
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return "", r.number, r.failed(err)
	case len(trimmed(r.long)) > maxLine:
		return "", r.number, ErrLong
	}
	return string(trimmed(r.long)), r.number, nil
}

func (r *Reader) failed(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: it is cut short after line %d: %w", r.name, r.number, err)
	}
	return fmt.Errorf("%s: after line %d: %w", r.name, r.number, err)
}

// trimmed returns a line without its end, and without zero bytes before it: where a log was cut short, those stand for what is lost.
func trimmed(line []byte) []byte {
	return withoutZeros(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")))
}

func withoutZeros(line []byte) []byte { return bytes.TrimLeft(line, "\x00") }

// firstText passes over empty lines, and the zero bytes that a log begins with after a crash, or where it was truncated under a
// program that writes on at its old place. It returns what firstLine does then; nothing if there is nothing else.
func (r *Reader) firstText() ([]byte, error) {
	for {
		head, err := r.firstLine()
		n := len(head) - len(bytes.TrimLeft(head, "\x00 \t\r\n"))
		if n < len(head) { // spaces may begin a line that goes on with text
			n = bytes.LastIndexAny(head[:n], "\x00\n") + 1
		}
		if n == 0 {
			r.empty = len(head) == 0
			return head, err
		}
		r.number += bytes.Count(head[:n], []byte("\n"))
		_, _ = r.lines.Discard(n)
	}
}

// Empty reports whether there is nothing but empty lines.
func (r *Reader) Empty() bool { return r.empty }

// firstLine waits for the first line, and returns what is there then, without taking it: a pipe may bring the next one much later.
func (r *Reader) firstLine() ([]byte, error) {
	var err error
	for {
		head, _ := r.lines.Peek(r.lines.Buffered())
		if err != nil || len(head) == r.lines.Size() || bytes.IndexByte(head, '\n') >= 0 {
			return head, err
		}
		_, err = r.lines.Peek(len(head) + 1) // waits for more
	}
}

// Sample returns the first lines of what is there already, which Next returns all the same.
func (r *Reader) Sample() []string {
	head, _ := r.firstLine()
	lines := strings.Split(string(head), "\n")
	if len(lines) > 1 {
		lines = lines[:len(lines)-1] // may be cut
	}
	var sample []string
	for _, line := range lines {
		if line = strings.TrimSuffix(line, "\r"); strings.TrimSpace(line) != "" && len(sample) < 50 {
			sample = append(sample, line)
		}
	}
	return sample
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.unpack != nil && !r.waits.Load() { // else it is in use until the input comes or is closed
		r.unpack()
	}
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

package accesslog

import (
	"bytes"
	"errors"
)

// maxControl is the share of control characters above which a file is binary: a 20th. What is packed or encrypted has twice as many,
// programs and pictures have more yet, and a log in which a client's bytes were written as they came far fewer.
const maxControl = 20

// aHole is how many zero bytes in a row are what a crash has left in a log, and no sign of anything.
const aHole = 64

var (
	errBinary = errors.New("it is binary, not a log of lines of text (plain, gzip or zstd)")
	errUTF16  = errors.New("it is text in UTF-16: convert it first, as with iconv -f UTF-16 -t UTF-8")
)

// notText says why the first block of a file is no text; nil if it may be. Bytes that are not UTF-8 are no sign of it.
func notText(head []byte) error {
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return errUTF16
	}
	control, size := 0, len(head)
	var zeros [2]int // at even and at odd places
	for i := 0; i < len(head); i++ {
		switch c := head[i]; {
		case c == 0:
			if run := len(head[i:]) - len(withoutZeros(head[i:])); run >= aHole {
				i += run - 1
				size -= run
				continue
			}
			zeros[i%2]++
			control++
		case c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\v' && c != '\f' && c != 0x1b, c == 0x7f:
			control++
		}
	}
	switch half := size / 2; {
	case control*maxControl <= size:
		return nil
	case size >= 16 && control == zeros[0]+zeros[1] && (zeros[0]*10 > half*9 && zeros[1] == 0 || zeros[1]*10 > half*9 && zeros[0] == 0):
		return errUTF16 // without its mark: every other byte is zero, as those of Latin letters are
	}
	return errBinary
}

package redisstore

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The scripts for the commonest takes are told numbers, and tell them, as doubles one after the other: one call packs or
// unpacks all of them, where each number as a text is a call of its own, and costs the server as much as the decision.

const doubleSize = 8

// maxExact is where doubles cease to hold every integer.
const maxExact = 1 << 53

func appendDouble(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

// numbers are those of a reply that have not been read yet.
type numbers struct {
	text  string
	alone bool // the last one was -1, by which a script says that it left a key alone
}

func readNumbers(reply any) numbers {
	text, _ := reply.(string)
	return numbers{text: text}
}

// next returns the next number, unless it is none that the scripts count in: an integer from 0 on.
func (n *numbers) next() (v int64, ok bool) {
	n.alone = false
	if len(n.text) < doubleSize {
		n.text = ""
		return 0, false
	}
	var bits uint64
	for i := range doubleSize {
		bits |= uint64(n.text[i]) << (8 * i)
	}
	n.text = n.text[doubleSize:]
	f := math.Float64frombits(bits)
	n.alone = f == -1
	if !(f >= 0 && f < maxExact && f == math.Trunc(f)) {
		return 0, false
	}
	return int64(f), true
}

// atEnd reports whether the reply held no more than was read.
func (n *numbers) atEnd() bool { return n.text == "" }

func badReply(reply any) error { return fmt.Errorf("the script answered %q", fmt.Sprint(reply)) }

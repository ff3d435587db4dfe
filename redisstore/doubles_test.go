package redisstore

import (
	"math"
	"testing"
)

// A reply is read as the integers that a script counts in; whatever else a server sends is none, and ends at the end of the text.
func TestNumbersOfAReply(t *testing.T) {
	for _, c := range []struct {
		sent      float64
		want      int64
		ok, alone bool
	}{
		{0, 0, true, false}, {1, 1, true, false}, {1_796_025_600_123_456, 1_796_025_600_123_456, true, false},
		{1<<53 - 1, 1<<53 - 1, true, false}, {1 << 53, 0, false, false}, {-1, 0, false, true}, {-2, 0, false, false},
		{0.5, 0, false, false}, {math.NaN(), 0, false, false}, {math.Inf(1), 0, false, false}, {math.Copysign(0, -1), 0, true, false},
	} {
		n := readNumbers(string(appendDouble(nil, c.sent)))
		v, ok := n.next()
		if v != c.want || ok != c.ok || n.alone != c.alone || !n.atEnd() {
			t.Errorf("%v is read as %d, %v, alone %v", c.sent, v, ok, n.alone)
		}
		if v, ok := n.next(); ok || n.alone {
			t.Errorf("after the end comes %d", v)
		}
	}
	for _, reply := range []any{nil, int64(3), "", "1234567", []any{"12345678"}} {
		n := readNumbers(reply)
		if v, ok := n.next(); ok || n.alone {
			t.Errorf("%#v is read as %d", reply, v)
		}
	}
}

package live

import (
	"testing"

	"github.com/tidegate-go/tidegate/rules/source"
)

// A change whose answer was lost is repeated with the version that it expected, and was a conflict with itself.
func TestFaultRepeatedPush(t *testing.T) {
	m := NewMemory([]byte(text(1)), "test")
	push := func(n int, expect int64) (int64, error) { return m.Push(t.Context(), []byte(text(n)), "anna", expect) }
	first, err := push(2, 0)
	do(t, err)
	if v, err := push(2, 0); err != nil || v != first {
		t.Errorf("once more: version %d, want %d: %v", v, first, err)
	}
	second, err := push(3, first)
	do(t, err)
	if v, err := push(3, first); err != nil || v != second {
		t.Errorf("once more: version %d, want %d: %v", v, second, err)
	}
	for _, expect := range []int64{0, first - 1} {
		if v, err := push(3, expect); err == nil {
			t.Errorf("a push that expects %d: version %d", expect, v)
		}
	}
	if v, err := push(3, source.AnyVersion); err != nil || v != second {
		t.Errorf("whatever is there: version %d, want %d: %v", v, second, err)
	}
}

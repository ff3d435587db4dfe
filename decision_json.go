package tidegate

import (
	"encoding/json"
	"strconv"
	"time"
)

// MarshalJSON writes the decision as the HTTP API and the command do:
//
//	{"allowed":true,"limit":20,"remaining":19,"retry_after_seconds":0,"reset_after_seconds":0.1,"delay_seconds":0,"rule":"example","source":"store"}
//
// Seconds are decimals, exact to the microsecond. null means never for a time and unlimited for a number.
func (d Decision) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 192)
	b = append(b, `{"allowed":`...)
	b = strconv.AppendBool(b, d.Allowed)
	b = appendCount(append(b, `,"limit":`...), d.Limit)
	b = appendCount(append(b, `,"remaining":`...), d.Remaining)
	b = appendSeconds(append(b, `,"retry_after_seconds":`...), d.RetryAfter)
	b = appendSeconds(append(b, `,"reset_after_seconds":`...), d.ResetAfter)
	b = appendSeconds(append(b, `,"delay_seconds":`...), d.Delay)
	b = append(b, `,"rule":`...)
	b = appendString(b, d.Rule)
	b = append(b, `,"source":"`...)
	b = append(b, d.Source.String()...)
	return append(b, `"}`...), nil
}

func appendCount(b []byte, n int64) []byte {
	if n == NoLimit {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, n, 10)
}

// appendSeconds writes whole seconds and as many of six decimals as are not zero, rounding up to the microsecond.
func appendSeconds(b []byte, d time.Duration) []byte {
	if d == Never {
		return append(b, "null"...)
	}
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	b = strconv.AppendInt(b, us/1e6, 10)
	if frac := us % 1e6; frac > 0 {
		digits := strconv.AppendInt(nil, 1e6+frac, 10)
		for digits[len(digits)-1] == '0' {
			digits = digits[:len(digits)-1]
		}
		b = append(append(b, '.'), digits[1:]...)
	}
	return b
}

// appendString writes s as a JSON string.
func appendString(b []byte, s string) []byte {
	q, err := json.Marshal(s)
	if err != nil { // a string always marshals
		return append(b, `""`...)
	}
	return append(b, q...)
}

package storetest

import (
	"fmt"
	"strings"

	"github.com/tidegate-go/tidegate"
)

const (
	ruleKeys  = "rule and key name the bucket: any bytes, also none, and no two names are one"
	ruleApart = "limits that share a store do not disturb each other"
)

// names are pairs that careless encodings confuse.
func names() [][2]string {
	long := strings.Repeat("k", 299)
	return [][2]string{
		{"a_b", "c"}, {"a", "b_c"}, // joined by _: RB-055
		{"acme", "eu_1"}, {"acme_eu", "1"},
		{"a:b", "c"}, {"a", "b:c"},
		{"a/b", "c"}, {"a", "b/c"}, {"a/", "b"}, {"a", "/b"},
		{"a|b", "c"}, {"a", "b|c"},
		{"a\x00b", "c"}, {"a", "b\x00c"}, {"a\x00", "b"}, {"a", "\x00b"},
		{"a\nb", "c"}, {"a", "b\nc"},
		{"", ""}, {"", "a"}, {"a", ""}, {" ", ""}, {"", " "}, {"", "/"}, {"/", ""},
		{"a", "b"}, {"b", "a"}, {"ab", ""}, {"", "ab"}, {"a", "a"}, {"b", "b"},
		{"a%2Fb", "c"}, {"a", "%2Fb"}, {"a%", "2Fb"}, {"a%2F", "b"}, {"a%25", "b"}, {"a%", "b"},
		{"{a}", "b"}, {"a", "{b}"}, {"{a", "}b"}, {"{", "}"}, {"{}", "{}"}, {"a}", "{b"},
		{"r", "%#"}, {"r", "%!"}, {"r", "%~"}, {"%#", "r"}, {"%!", "r"}, {"%~", "r"},
		{"A", "b"}, {"a", "B"}, {"a ", "b"}, {"a", " b"}, {"a", "b "},
		{"a", "b\r\nSET x 1"}, {"a", "b\r\nSET x 2"}, {"a", "b SET x 1"}, // RB-124
		{"r", "\xff"}, {"r", "\xfe"}, {"r", "\xc3"}, {"r", "\ufffd"}, {"\xff", "r"}, // not UTF-8
		{"r", "é"}, {"r", "e\u0301"}, {"r", "Москва"}, {"r", "🦦"},
		{"r", "2001:db8::1"}, {"r", "[2001:db8::1]"}, {"r", "10.0.0.1"},
		{"r", long + "1"}, {"r", long + "2"}, {"r", long}, {long + "1", "r"}, {long + "2", "r"}, {long, long},
		{"r", strings.Repeat("é", 150)}, {"r", strings.Repeat("%", 300)}, {"r", strings.Repeat("%25", 300)},
		{"r", strings.Repeat("k", 198)}, {"r", strings.Repeat("k", 199)}, {"r", strings.Repeat("k", 200)}, {"r", strings.Repeat("k", 201)},
		{"r", strings.Repeat("x", 100_000)}, {"r", strings.Repeat("x", 100_001)},
	}
}

func keyCases() []testCase {
	cases := []testCase{
		{"other limits", ruleApart, otherLimits},
		{"one rule, many keys", ruleApart, manyKeys},
		{"one key, every algorithm", ruleApart, oneKeyEveryAlgorithm},
	}
	return append(cases, forEach("names", ruleKeys, distinctNames)...)
}

// distinctNames takes another number from each bucket, and finds it there.
func distinctNames(x *trial, a algorithm) {
	buckets := make([]*bucket, 0, 100)
	for _, n := range names() {
		b := x.bucket(a.limit)
		b.charge.Rule, b.charge.Key = n[0], n[1]
		if b.charge.Limit.Warmup > 0 {
			b.take(1)
		}
		buckets = append(buckets, b)
	}
	x.advance(a.fill)
	for i, b := range buckets {
		if d := b.take(int64(1 + i%19)); !d.Allowed || d.Remaining != int64(19-i%19) {
			x.Errorf("%s: the first take of %s: %s", b, short(b.charge), say(d))
		}
	}
	for i, b := range buckets {
		if d := b.take(0); d.Remaining != int64(19-i%19) {
			x.Errorf("%s: %s was disturbed: %s", b, short(b.charge), say(d))
		}
	}
	for i, b := range buckets {
		x.reset(b)
		for j, c := range buckets[i+1:] {
			if j > 2 {
				break
			}
			if d := c.take(0); d.Remaining == capacity {
				x.Errorf("%s: a reset of %s reset %s", b, short(b.charge), short(c.charge))
			}
		}
	}
}

// short writes the name of a bucket.
func short(c tidegate.Charge) string {
	return fmt.Sprintf("(%.20q… %d bytes, %.20q… %d bytes)", c.Rule, len(c.Rule), c.Key, len(c.Key))
}

// otherLimits is RB-078: a short window beside a long one.
func otherLimits(x *trial) {
	short, long := x.bucket("10/s fixed-window"), x.bucket("30/h fixed-window")
	long.charge.Key = short.charge.Key
	for n := range int64(10) {
		if d := short.take(1); !d.Allowed {
			x.Errorf("%s: take %d: %s", short, n, say(d))
		}
		if d := long.take(1); d.Remaining != 29-n {
			x.Errorf("%s: take %d: %s", long, n, say(d))
		}
		x.advance(300 * ms)
	}
}

func manyKeys(x *trial) {
	b := x.bucket("10/s burst 20")
	for n := range int64(200) {
		c := b.asks(1 + n%20)
		c.Key = fmt.Sprint(n)
		x.takeAll(c)
	}
	for n := range int64(200) {
		c := b.asks(0)
		c.Key = fmt.Sprint(n)
		if d := x.takeAll(c)[0]; d.Remaining != 19-n%20 {
			x.Errorf("key %d: %s", n, say(d))
		}
	}
}

func oneKeyEveryAlgorithm(x *trial) {
	var buckets []*bucket
	for _, a := range algorithms {
		b := x.ready(a.limit)
		b.charge.Key = "one"
		if a.name == "warm-up" {
			b.take(1)
		}
		buckets = append(buckets, b)
	}
	x.advance(25 * sec / 10)
	for i, b := range buckets {
		b.take(int64(i + 1))
	}
	for i, b := range buckets {
		if d := b.take(0); d.Remaining != int64(19-i) {
			x.Errorf("%s: beside the others: %s", b, say(d))
		}
	}
}

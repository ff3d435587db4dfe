package key

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// bucket is the text of a bucket.
func bucket(rule, key string) string { return string(AppendBucket(nil, rule, key)) }

// unescape takes an escaped text back. It accepts only what appendEscaped writes: %, and two digits in upper case, of a
// byte that has to be escaped.
func unescape(text string, sep byte) (string, error) {
	var b []byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '%' {
			if mustEscape(c, sep) {
				return "", errors.New("a byte that is not escaped")
			}
			b = append(b, c)
			continue
		}
		if i+2 >= len(text) {
			return "", errors.New("an escape that is cut off")
		}
		hi, lo := strings.IndexByte(hex, text[i+1]), strings.IndexByte(hex, text[i+2])
		if hi < 0 || lo < 0 || !mustEscape(byte(hi<<4|lo), sep) {
			return "", errors.New("an escape that is not ours")
		}
		b = append(b, byte(hi<<4|lo))
		i += 2
	}
	return string(b), nil
}

func mustEscape(c, sep byte) bool { return c <= ' ' || c == 0x7f || c == '%' || c == sep }

// split takes the text of Join of several parts back.
func split(text string) ([]string, error) {
	parts := strings.Split(text, "/")
	for i := range parts {
		var err error
		if parts[i], err = unescape(parts[i], '/'); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// parse takes the text of a bucket that was not cut back.
func parse(text string) (rule, key string, err error) {
	r, k, ok := strings.Cut(text, "/")
	if !ok {
		return "", "", errors.New("no separator")
	}
	if rule, err = unescape(r, '/'); err == nil {
		key, err = unescape(k, '%')
	}
	return rule, key, err
}

// drawText draws texts that are likely to be confused with each other: short ones of separators, escapes and digits, as
// well as any bytes.
func drawText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringOfN(rapid.SampledFrom([]rune("/%#~!25F\x00 ab_:|")), 0, 8, -1),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 20), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.IntRange(0, 300), func(n int) string { return strings.Repeat("a", n) }),
	)
}

// Keys that share a counter in peers, which join the parts as they are: here they do not.
func TestCollisionsOfPeers(t *testing.T) {
	for _, test := range []struct {
		name string
		a, b []string
	}{
		{"RB-018, a descriptor's key and value", []string{"a", "b"}, []string{"a_b", ""}},
		{"RB-055, a name and a unique key", []string{"a_b", "c"}, []string{"a", "b_c"}},
		{"RB-055, two tenants", []string{"acme", "eu_1"}, []string{"acme_eu", "1"}},
		{"our own separator", []string{"a/b", "c"}, []string{"a", "b/c"}},
		{"an escaped separator", []string{"a%2Fb", "c"}, []string{"a/b", "c"}},
		{"an escape of an escape", []string{"a%252F", "c"}, []string{"a%2F", "c"}},
		{"an empty part", []string{"", "a"}, []string{"a", ""}},
		{"empty parts", []string{"", "/"}, []string{"/", ""}},
		{"a colon, as Redis has them", []string{"a:b", "c"}, []string{"a", "b:c"}},
		{"a vertical bar", []string{"a|b", "c"}, []string{"a", "b|c"}},
		{"a null byte", []string{"a\x00", "b"}, []string{"a", "\x00b"}},
		{"upper and lower case", []string{"A", "b"}, []string{"a", "B"}},
		{"a space at the end", []string{"a ", "b"}, []string{"a", "b"}},
		{"two forms of é", []string{"\u00e9", ""}, []string{"e\u0301", ""}},
		{"broken UTF-8", []string{"\xc3\x28", ""}, []string{"\ufffd(", ""}},
		{"three parts and two", []string{"a", "b", "c"}, []string{"a", "b/c", ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := Join(test.a), Join(test.b)
			if a == b {
				t.Errorf("%q and %q are both joined to %q", test.a, test.b, a)
			}
			if x, y := bucket(test.a[0], Join(test.a[1:])), bucket(test.b[0], Join(test.b[1:])); x == y {
				t.Errorf("rule and key %q and %q are both the bucket %q", test.a, test.b, x)
			}
		})
	}
}

// RB-124: whatever the bytes, what is written shows in a terminal and breaks no line; it is the same every time.
func TestTextsAreHarmless(t *testing.T) {
	for _, test := range []struct{ rule, key, want string }{
		{"per-user", "user:42", "per-user/user:42"},
		{"", "", "/"},
		{"r", "", "r/"},
		{"a b", "c d", "a%20b/c%20d"},
		{"r", "a b\r\nSET x 1", "r/a%20b%0D%0ASET%20x%201"},
		{"r", "\x00\x1b[31m\x7f", "r/%00%1B[31m%7F"},
		{"r", "100%", "r/100%25"},
		{"r", "%2F", "r/%252F"},
		{"a/b", "c/d", "a%2Fb/c/d"}, // the first slash ends the rule
		{"r", "/api/items/*", "r//api/items/*"},
		{"r", "{tag}", "r/{tag}"},
		{"правило", "ключ 🔑", "правило/ключ%20🔑"},
		{"r", "\xff\xfe", "r/\xff\xfe"},
		{"r", "2001:db8::1", "r/2001:db8::1"},
	} {
		if got := bucket(test.rule, test.key); got != test.want {
			t.Errorf("rule %q, key %q: %q, want %q", test.rule, test.key, got, test.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := bucket(drawText().Draw(t, "rule"), drawText().Draw(t, "key"))
		if i := strings.IndexFunc(text, func(r rune) bool { return r < unicode.MaxASCII && (r <= ' ' || r == 0x7f) }); i >= 0 {
			t.Fatalf("%q holds a byte that does not show, at %d", text, i)
		}
	})
}

func TestJoin(t *testing.T) {
	for _, test := range []struct {
		parts []string
		want  string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"a/b%c d"}, "a/b%c d"}, // one part is the key itself
		{[]string{"", ""}, "/"},
		{[]string{"a", "b", ""}, "a/b/"},
		{[]string{"a/b", "c%d", "e f"}, "a%2Fb/c%25d/e%20f"},
		{[]string{"192.0.2.1", "/api/x"}, "192.0.2.1/%2Fapi%2Fx"},
	} {
		if got := Join(test.parts); got != test.want {
			t.Errorf("%q: %q, want %q", test.parts, got, test.want)
		}
	}
}

// Two keys of as many parts have one text only if they are the same: it can be taken apart again.
func TestJoinIsInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(drawText(), 2, 4).Draw(t, "parts")
		got, err := split(Join(parts))
		if err != nil || !slices.Equal(got, parts) {
			t.Fatalf("%q is joined to %q, which is %q (%v)", parts, Join(parts), got, err)
		}
	})
}

// Up to 200 bytes the text of a bucket can be taken apart again; a longer one is told apart by a hash, and has a mark
// that no text has which was not cut.
func TestBucketIsInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule, key := drawText().Draw(t, "rule"), drawText().Draw(t, "key")
		text := bucket(rule, key)
		if len(text) > MaxLen {
			t.Fatalf("%q has %d bytes", text, len(text))
		}
		r, k, err := parse(text)
		if cut := strings.Contains(text, "/%#"); cut {
			if err == nil {
				t.Fatalf("%q is the text of rule %q, key %q, and of rule %q, key %q", text, rule, key, r, k)
			}
			return
		}
		if err != nil || r != rule || k != key {
			t.Fatalf("rule %q, key %q has the text %q, which is rule %q, key %q (%v)", rule, key, text, r, k, err)
		}
	})
}

// Two buckets that differ, however little, have two texts.
func TestNeighboursDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule, key := drawText().Draw(t, "rule"), drawText().Draw(t, "key")
		all := rule + key
		n := rapid.IntRange(0, len(all)).Draw(t, "cut")
		others := [][2]string{
			{all[:n], all[n:]}, {rule, key + "a"}, {rule + "a", key}, {rule, key + "/"}, {rule + "/", key},
			{rule, key + "%"}, {rule, strings.ToUpper(key)}, {key, rule}, {rule, ""}, {"", key},
		}
		for _, o := range others {
			same := o[0] == rule && o[1] == key
			if got := bucket(o[0], o[1]) == bucket(rule, key); got != same {
				t.Fatalf("rule %q, key %q and rule %q, key %q: equal texts %v", rule, key, o[0], o[1], got)
			}
			secret := []byte("0123456789abcdef")
			if got := bytes.Equal(AppendSecret(nil, secret, o[0], o[1]), AppendSecret(nil, secret, rule, key)); got != same {
				t.Fatalf("rule %q, key %q and rule %q, key %q: equal secrets %v", rule, key, o[0], o[1], got)
			}
		}
	})
}

// The text is kept up to MaxLen, counted as it is written. Beyond, the rule stays readable where it is short.
func TestLongTexts(t *testing.T) {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "%#" + base64.RawURLEncoding.EncodeToString(sum[:])
	}
	a := func(n int) string { return strings.Repeat("a", n) }
	for _, test := range []struct{ name, rule, key, want string }{
		{"200 bytes", "r", a(198), "r/" + a(198)},
		{"201 bytes", "r", a(199), "r/" + hash("r/"+a(199))},
		{"200 bytes with escapes", "r", a(195) + " ", "r/" + a(195) + "%20"},
		{"201 bytes with escapes", "r", a(196) + " ", "r/" + hash("r/"+a(196)+"%20")},
		{"a rule of 100 bytes", a(100), a(100), a(100) + "/" + hash(a(100)+"/"+a(100))},
		{"a rule of 101 bytes", a(101), a(99), "/" + hash(a(101)+"/"+a(99))},
		{"a long rule alone", a(500), "", "/" + hash(a(500)+"/")},
		{"a megabyte", "r", a(1 << 20), "r/" + hash("r/"+a(1<<20))},
	} {
		got := bucket(test.rule, test.key)
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if len(got) > MaxLen {
			t.Errorf("%s: %d bytes", test.name, len(got))
		}
	}
	if x, y := bucket("r", a(300)+"x"), bucket("r", a(300)+"y"); x == y {
		t.Errorf("two keys that differ in byte 301 are both %q", x)
	}
}

// Whatever is in front of it stays, and does not count.
func TestAppend(t *testing.T) {
	prefix := []byte("tidegate:{5f3a9c01}" + strings.Repeat("-", 300))
	for _, key := range []string{"k", strings.Repeat("k", 250)} {
		got := AppendBucket(slices.Clone(prefix), "r", key)
		if want := string(prefix) + bucket("r", key); string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
		secret := []byte("0123456789abcdef")
		got = AppendSecret(slices.Clone(prefix), secret, "r", key)
		if want := string(prefix) + string(AppendSecret(nil, secret, "r", key)); string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Under a secret neither rule nor key can be read, nor guessed without it: the text is an HMAC, as long for every name.
func TestSecretHidesNames(t *testing.T) {
	secret, other := []byte("0123456789abcdef"), []byte("0123456789abcdeg")
	rapid.Check(t, func(t *rapid.T) {
		rule, key := drawText().Draw(t, "rule"), drawText().Draw(t, "key")
		text := string(AppendSecret(nil, secret, rule, key))
		if len(text) != 2+43 || !strings.HasPrefix(text, "%~") {
			t.Fatalf("rule %q, key %q: %q", rule, key, text)
		}
		if text == string(AppendSecret(nil, other, rule, key)) {
			t.Fatal("another secret gives the same text")
		}
		if text != string(AppendSecret(nil, secret, rule, key)) {
			t.Fatal("the same secret gives another text")
		}
		if _, _, err := parse(text + "/"); err == nil { // nor is it the beginning of the text of a bucket
			t.Fatalf("%q can be the rule of a bucket", text)
		}
	})

	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("per-user/alice@example.com"))
	want := "%~" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	if got := string(AppendSecret(nil, secret, "per-user", "alice@example.com")); got != want {
		t.Errorf("%q, want the HMAC-SHA-256 %q", got, want)
	}
	if strings.Contains(want, "alice") || strings.Contains(want, "per-user") {
		t.Error("the names can be read")
	}
}

// FuzzJoin: the text of several parts can be taken apart again, so that no two keys share one.
func FuzzJoin(f *testing.F) {
	f.Add("a", "b", "c")
	f.Add("a/b", "c%2F", "")
	f.Add("%", "/", "\x00 \x7f")
	f.Add("a_b", "\xff", "é")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, parts := range [][]string{{a, b}, {a, b, c}} {
			text := Join(parts)
			got, err := split(text)
			if err != nil || !slices.Equal(got, parts) {
				t.Errorf("%q is joined to %q, which is %q (%v)", parts, text, got, err)
			}
		}
		if Join([]string{a}) != a {
			t.Errorf("one part is not itself")
		}
	})
}

// FuzzAppendBucket: two buckets have one text only if they are the same, and a text that was not cut can be taken apart.
func FuzzAppendBucket(f *testing.F) {
	long := strings.Repeat("x", 300)
	f.Add("a", "b", "a", "b")
	f.Add("a_b", "c", "a", "b_c")
	f.Add("a/b", "c", "a", "b/c")
	f.Add("r", long, "r", long+"y")
	f.Add(long, "", "", long)
	f.Add("r", "%#", "r", "%25#")
	f.Add("", "%23", "%23", "")
	f.Fuzz(func(t *testing.T, rule1, key1, rule2, key2 string) {
		one, two := bucket(rule1, key1), bucket(rule2, key2)
		if same := rule1 == rule2 && key1 == key2; (one == two) != same {
			t.Errorf("rule %q, key %q: %q\nrule %q, key %q: %q", rule1, key1, one, rule2, key2, two)
		}
		for _, x := range []struct{ rule, key, text string }{{rule1, key1, one}, {rule2, key2, two}} {
			if len(x.text) > MaxLen {
				t.Errorf("%q has %d bytes", x.text, len(x.text))
			}
			rule, key, err := parse(x.text)
			cut := strings.Contains(x.text, "/%#")
			if cut != (err != nil) || !cut && (rule != x.rule || key != x.key) {
				t.Errorf("rule %q, key %q: %q, which is rule %q, key %q (%v)", x.rule, x.key, x.text, rule, key, err)
			}
		}
		secret := []byte("0123456789abcdef")
		s1, s2 := AppendSecret(nil, secret, rule1, key1), AppendSecret(nil, secret, rule2, key2)
		if bytes.Equal(s1, s2) != (one == two) {
			t.Errorf("rule %q, key %q: %q\nrule %q, key %q: %q", rule1, key1, s1, rule2, key2, s2)
		}
	})
}

// The rule can be read from a text without a key, unless it was too long to stand in it.
func TestRule(t *testing.T) {
	for _, rule := range []string{"", "api", "per user/100%", "\x00\xff%#", "Zürich", strings.Repeat("r", MaxLen-1)} {
		if got, ok := Rule(string(AppendBucket(nil, rule, ""))); !ok || got != rule {
			t.Errorf("%q: %q, %t", rule, got, ok)
		}
	}
	for _, text := range []string{"", "api", string(AppendBucket(nil, strings.Repeat("r", MaxLen), "")), string(AppendSecret(nil, []byte("secret"), "api", "")), "%4/", "%/"} {
		if got, ok := Rule(text); ok {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, parts := range [][]string{
		{"a", "b"}, {"", ""}, {"a/b", "c"}, {"a%2Fb", "%"}, {"é", "\xff\x00", "x y"}, {"", "", "/"},
	} {
		if got, ok := Split(Join(parts), len(parts)); !ok || !slices.Equal(got, parts) {
			t.Errorf("Split(Join(%q)) is %q, %v", parts, got, ok)
		}
	}
	for _, test := range []struct {
		joined string
		n      int
		want   []string
		ok     bool
	}{
		{"", 0, nil, true},
		{"a", 0, nil, false},
		{"a/b%", 1, []string{"a/b%"}, true}, // one part is kept as it is
		{"a/b", 3, nil, false},
		{"a/b/c", 2, nil, false},
		{"a/%zz", 2, nil, false},
		{"a/%4", 2, nil, false},
		{"a/%41", 2, nil, false}, // Join writes no letter so
	} {
		got, ok := Split(test.joined, test.n)
		if ok != test.ok || ok && !slices.Equal(got, test.want) {
			t.Errorf("Split(%q, %d) is %q, %v", test.joined, test.n, got, ok)
		}
	}
}

package accesslog

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

// utf16Of writes a text in UTF-16.
func utf16Of(order binary.AppendByteOrder, text string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, u)
	}
	return string(b)
}

// What is no text is told by the share of control characters in it, not by one of them.
func TestBinaryFiles(t *testing.T) {
	const line = "ts=1767362640.5 path=/a\n"
	random := make([]byte, 4096)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(r.UintN(256))
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	elf, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ content, want string }{
		"this program":                        {string(elf), "is binary"},
		"the beginning of it":                 {string(elf[:64]), "is binary"},
		"packed by something else":            {"BZh91AY" + string(random), "is binary"},
		"UTF-16 with its mark":                {utf16Of(binary.LittleEndian, "\ufeff"+strings.Repeat(line, 50)), "UTF-16"},
		"UTF-16 with its mark, the other way": {utf16Of(binary.BigEndian, "\ufeff"+line), "UTF-16"},
		"UTF-16 without it":                   {utf16Of(binary.LittleEndian, strings.Repeat(line, 50)), "UTF-16"},
		"UTF-16 without it, the other way":    {utf16Of(binary.BigEndian, strings.Repeat(line, 50)), "UTF-16"},
		"a zero in a line":                    {line + "ts=1767362640.5 path=/\x00b agent=\x16\x03\x01 of=a-client-that-speaks-tls-to-a-server-that-does-not\n" + line, ""},
		"Latin-1":                             {"ts=1767362640.5 path=/caf\xe9 user=\xfc\xe4\xf6\xdf\n", ""},
		"colours":                             {strings.Repeat("\x1b[32mINFO\x1b[0m ", 100) + "\n", ""},
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(file, nil)
		if err == nil {
			_ = r.Close()
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A log that begins with zero bytes, or has them where a crash has cut it, is read: they stand for nothing, and what follows them
// on their line counts.
func TestZeroBytesArePassedOver(t *testing.T) {
	for _, zeros := range []int{1, 4096, 100_000, 3 << 20} {
		gap := strings.Repeat("\x00", zeros)
		l := open(t, gap+"ts=1767362640.5 path=/a\n"+gap+"cut\nts=1767362640.6 path=/b\n"+gap+"ts=1767362640.7 path=/c\r\n"+gap, Options{})
		_, paths := all(t, l.Next)
		if strings.Join(paths, "") != "/a/b/c" || l.Counts.Skipped != 1 || l.Counts.Bad[0].Line != 2 {
			t.Errorf("%d zeros: %v, %+v", zeros, paths, l.Counts)
		}
	}
}

package server

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"
)

func TestIDSaysWhatItNames(t *testing.T) {
	for _, h := range []heldID{
		{rule: "example", parts: []string{"user:1"}},
		{rule: "global"},
		{rule: "pair", parts: []string{"", "a/b%"}},
		{rule: strings.Repeat("r", 300), parts: []string{"\x00\xff", strings.Repeat("k", maxBody)}},
	} {
		h.name = rand.Text()
		got, err := parseID(h.String())
		if err != nil || got.rule != h.rule || got.name != h.name || !slices.Equal(got.parts, h.parts) {
			t.Errorf("%.200v became %.200v, %v", h, got, err)
		}
	}
}

func TestGarbageIsNoID(t *testing.T) {
	good := (&heldID{rule: "example", parts: []string{"k"}, name: rand.Text()}).String()
	for _, id := range []string{
		"", "x", good[:len(good)-1], good[:10], good + "=", good[:4] + "\n" + good[4:], "\r" + good,
		" " + good, "B" + good[1:], good[:3] + "!" + good[4:],
		(&heldID{rule: "example", name: strings.Repeat("a", nameLen)}).String(), // crypto/rand.Text has no small letters
	} {
		if h, err := parseID(id); err == nil {
			t.Errorf("%q was read as %v", id, h)
		}
	}
}

// FuzzID holds that an id is read in one way only: what is read is written back as it was.
func FuzzID(f *testing.F) {
	f.Add((&heldID{rule: "example", parts: []string{"k"}, name: rand.Text()}).String())
	f.Add((&heldID{rule: "", name: rand.Text()}).String())
	f.Add("")
	s := newTestServer(f, nil)
	f.Fuzz(func(t *testing.T, id string) {
		if h, err := parseID(id); err == nil && h.String() != id {
			t.Fatalf("%q was read as %v, which is %q", id, h, h.String())
		}
		for _, path := range []string{"/v1/renew", "/v1/release"} {
			checkReply(t, post(s, path, `{"id":`+quoted(t, id)+`}`))
		}
	})
}

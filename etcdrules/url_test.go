package etcdrules

import (
	"slices"
	"strings"
	"testing"
)

func TestURL(t *testing.T) {
	for text, want := range map[string]location{
		"etcd://h/k":                  {endpoints: []string{"h:2379"}, key: "k"},
		"etcd://h:1/a/b":              {endpoints: []string{"h:1"}, key: "a/b"},
		"etcds://a:1,b:2//rules":      {tls: true, endpoints: []string{"a:1", "b:2"}, key: "/rules"},
		"etcd://u:p%40%2Fw@[::1]/k":   {user: "u", password: "p@/w", endpoints: []string{"[::1]:2379"}, key: "k"},
		"etcd://u@10.0.0.1:2379/k%3F": {user: "u", endpoints: []string{"10.0.0.1:2379"}, key: "k?"},
	} {
		l, err := parse(text)
		if err != nil || l.tls != want.tls || l.user != want.user || l.password != want.password || l.key != want.key || !slices.Equal(l.endpoints, want.endpoints) {
			t.Errorf("%s: %+v, %v", text, l, err)
		}
	}
	for text, want := range map[string]string{
		"h:2379/k":             "does not begin with",
		"http://h/k":           "does not begin with",
		"etcd://h":             "the key is missing",
		"etcd://h/":            "the key is missing",
		"etcd:///k":            "no host",
		"etcd://h,/k":          "no host",
		"etcd://h:x/k":         "port",
		"etcd://h:0/k":         "port",
		"etcd://::1/k":         "brackets",
		"etcd://u:s3cret%@h/k": "%25",
		"etcd://:s3cret@h/k":   "user",
		"etcd://h/k?s3cret":    "%3F",
		"etcd://h/%":           "%25",
	} {
		_, err := Open(text, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzURL(f *testing.F) {
	f.Add("etcd://u:p@a:1,[::1]:2/k")
	f.Add("etcds://h//k%3F")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parse(text)
		if err != nil {
			return
		}
		if l.key == "" || len(l.endpoints) == 0 || l.password != "" && l.user == "" {
			t.Errorf("%q: %+v", text, l)
		}
	})
}

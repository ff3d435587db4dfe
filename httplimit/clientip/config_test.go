package clientip_test

import (
	"strings"
	"testing"

	"github.com/tidegate-go/tidegate/httplimit/clientip"
)

// Each fault is named, with what to write instead, and all at once.
func TestConfigFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  clientip.Config
		want []string
	}{
		{"everyone", clientip.Config{Trusted: []string{"0.0.0.0/0"}}, []string{`"0.0.0.0/0" trusts everyone`, "Hops"}},
		{"everyone of IPv6", clientip.Config{Trusted: []string{"::/0"}}, []string{`"::/0" trusts everyone`}},
		{"everyone, mapped", clientip.Config{Trusted: []string{"::ffff:0.0.0.0/96"}}, []string{"trusts everyone"}},
		{"more than the mapped", clientip.Config{Trusted: []string{"::ffff:0.0.0.0/80"}}, []string{"beyond the mapped"}},
		{"a name", clientip.Config{Trusted: []string{"lb.internal"}}, []string{`"lb.internal" is neither`, `"10.0.0.0/8"`}},
		{"a zone", clientip.Config{Trusted: []string{"fe80::1%eth0"}}, []string{"neither an address nor a prefix"}},
		{"bits beyond", clientip.Config{Trusted: []string{"10.0.0.1/8"}}, []string{`write "10.0.0.0/8"`}},
		{"hops below", clientip.Config{Hops: -1}, []string{"Hops -1"}},
		{"hops above", clientip.Config{Hops: 17}, []string{"Hops 17"}},
		{"both", clientip.Config{Hops: 1, Trusted: []string{"private"}}, []string{"Trusted and Hops are both set"}},
		{"nobody writes it", clientip.Config{Header: "X-Real-IP"}, []string{"X-Real-Ip is set, but nobody is trusted"}},
		{"hops of one address", clientip.Config{Hops: 1, Header: "X-Real-IP"}, []string{"single address"}},
		{"no header", clientip.Config{Hops: 1, Header: "X Real"}, []string{"not the name of a header"}},
		{"prefix below", clientip.Config{IPv6Prefix: 31}, []string{"IPv6Prefix 31"}},
		{"prefix above", clientip.Config{IPv6Prefix: 129}, []string{"IPv6Prefix 129"}},
		{"several", clientip.Config{IPv6Prefix: 1, Hops: 20, Trusted: []string{"x", "y"}}, []string{"IPv6Prefix 1", "Hops 20", `"x"`, `"y"`, "both"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := clientip.New(&c.cfg)
			if err == nil || r != nil {
				t.Fatalf("%+v is accepted", c.cfg)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
		})
	}
}

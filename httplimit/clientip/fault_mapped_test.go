package clientip_test

import (
	"testing"

	"github.com/tidegate-go/tidegate/httplimit/clientip"
)

// All mapped IPv4 addresses fell into one prefix of IPv6, so that every user of IPv4 shared a bucket; the fix looked at the
// notation, so that other notations of the same bits were still wrong (RB-107).
func TestMappedIsDecidedByBits(t *testing.T) {
	r, err := clientip.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for remote, want := range map[string]string{
		"[::ffff:1.2.3.4]:1": "1.2.3.4", "[::ffff:102:304]:1": "1.2.3.4", "1.2.3.4:1": "1.2.3.4", "[0:0:0:0:0:FFFF:0102:0304]:1": "1.2.3.4",
		"[2001:db8::1.2.3.4]:1": "2001:db8::", "[64:ff9b::1.2.3.4]:1": "64:ff9b::", "[::1.2.3.4]:1": "::", "[::1]:1": "::",
	} {
		if got, _ := r.Key(remote, nil); got != want {
			t.Errorf("%s is the client %s, want %s", remote, got, want)
		}
	}
}

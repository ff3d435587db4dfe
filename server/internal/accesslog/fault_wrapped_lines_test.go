package accesslog

import (
	"strings"
	"testing"
)

// Lines in a further pair of quotes, as an export from a viewer of tables leaves them, are bad, with a hint; none is a request of an
// address that begins with a quote.
func TestFaultLinesInQuotes(t *testing.T) {
	for _, format := range []string{"common", "combined", `$remote_addr - $remote_user [$time_local] "$request" $status $http_user_agent`} {
		for _, line := range []string{
			`"203.0.113.9 - - [02/Jan/2026:15:04:05 +0100] "GET / HTTP/1.1" 200 1 "-" "ua""`,
			`"203.0.113.9 - - [02/Jan/2026:15:04:05 +0100] ""GET / HTTP/1.1"" 200 1 ""-"" ""ua"""`,
			`"203.0.113.9 - - [02/Jan/2026:15:04:05 +0100] "GET / HTTP/1.1" 200 1"`,
		} {
			newFormat, err := Named(format, "")
			if err != nil {
				t.Fatal(err)
			}
			if got := told(newFormat(), line); !strings.Contains(got, "! the line begins with a quote") {
				t.Errorf("%s: %s", format, got)
			}
		}
	}
}

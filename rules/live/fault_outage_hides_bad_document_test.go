package live

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidegate-go/tidegate/rules/source"
)

// After an outage of the source, while a bad document lies there, the status told of the outage that was over; a source that
// said that nothing had changed, or delivered the document again, changed nothing about it.
func TestFaultBadDocumentAfterOutage(t *testing.T) {
	for name, back := range map[string]func(*scripted){
		"unchanged": func(s *scripted) { s.deliveries <- delivery{err: source.ErrUnchanged} },
		"again":     func(s *scripted) { s.send(bad, 20) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newScripted()
				l, err := New(newEngine(t, text(1)), src, nil)
				do(t, err)
				run(t, l)
				src.send(text(2), 10)
				expect := func(want string) {
					t.Helper()
					synctest.Wait()
					if p := l.Status().Problem; want == "" && p != nil || want != "" && (p == nil || !strings.Contains(p.Error(), want)) {
						t.Errorf("the problem is %v, want %q", p, want)
					}
				}
				src.send(bad, 20)
				expect("limt")
				for _, reread := range []bool{false, true} {
					src.deliveries <- delivery{err: errors.New("away")}
					expect("away")
					if reread {
						l.Reread()
					}
					back(src)
					expect("limt")
				}
				src.deliveries <- delivery{err: errors.New("away")}
				src.send(text(2), 30)
				expect("")
			})
		})
	}
}

// Package scenario runs stories about limits, told in text files, against any store whose clock can be injected.
//
//	func TestScenarios(t *testing.T) {
//		scenario.Run(t, "../internal/algo/testdata", func(t *testing.T, now func() time.Time) tidegate.Store {
//			return mystore.New(&mystore.Config{Now: now})
//		})
//	}
//
// The files are what every store must answer, to the microsecond: the contract of the algorithms, for people to read.
// With -rewrite a test writes what it got into them; read the difference before you keep it.
//
// # Stories
//
// A file holds directives, each followed by ---- and the transcript that it must give. The directive story begins anew,
// with an empty store and the clock at the beginning; then goes on. Below it stands a command on each line:
//
//	story
//	limit 10/s burst 20
//	take n=20
//	after 100ms take
//	----
//	0s     limit 10/s burst 20
//	0s     take n=20            allowed, 0 of 20 left, reset in 2s
//	100ms  take                 allowed, 0 of 20 left, reset in 2s
//
// Time passes only where a story says so: before a command, or on a line of its own.
//
//	begin 2100-03-28 01:00 Europe/Vienna   where the clock begins, and the zone in which times are told from here on
//	at 1.5s …                              so long after the beginning; or a time such as 2100-03-28 03:00
//	after 100ms …                          so long after the command before
//	clock -5s                              the clock steps, without time passing
//
// The clock begins at 2100-01-01 00:00 UTC, a Friday, unless begin says otherwise.
//
//	limit 10/s burst 20                    the limit of the rule limit, the one of commands that name none
//	limit user: 10/s burst 20              one of the rule user
//	limit user@old: 5/s                    another view of the rule user, such as a replica's that has not heard the news
//	limit user version=-1h: 10/s           a limit that was changed an hour before the beginning; otherwise its version is 0
//	set-limit user: 100/s                  the limit is changed now, or at version=…
//
// A command names its buckets as rule/key, or rule@view/key; the rule limit and the key k where it names none. Behind the
// bucket, *3 is its cost and ? puts it in shadow.
//
//	take [n=3] [key=a]                     charges; 1 if n is not given
//	take user/alice tenant/acme*2 trial/?  several charges, all or nothing
//	take repeat=100 every=10ms             a row of takes, of which only the numbers are told
//	peek                                   take n=0
//	refund n=3                             take n=-3
//	reserve id=a n=3 maxwait=1s [hold=1h]  charges for a start that may be later
//	settle id=a n=2, cancel id=a           what the reservation turned out to cost; cancel is settle n=0
//	acquire id=a [n=2]                     takes permits
//	renew id=a, release id=a
//	reset
//	plot for=3s every=50ms [n=1]           a row of takes, or of peeks for n=0, and what remains after each: * is allowed, x denied
package scenario

package tidegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// A limiter keeps one limit for every key: here two requests an hour for each user. A key has a full bucket when it is
// seen for the first time, and nothing has to be created for it.
func Example() {
	store := memstore.New(nil) // redisstore.Open(url, nil) shares the buckets with other processes; nothing else changes
	defer store.Close()

	api, err := tidegate.New(store, tidegate.Limit{Rate: 2, Per: time.Hour}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	for _, user := range []string{"alice", "alice", "alice", "bob"} {
		d, err := api.Allow(ctx, user)
		switch {
		case err != nil:
			fmt.Println("no decision:", err) // the store failed: this says nothing about the limit
		case d.Allowed:
			fmt.Printf("%s: allowed, %d of %d left\n", user, d.Remaining, d.Limit)
		default:
			fmt.Printf("%s: denied, try again in %v\n", user, d.RetryAfter.Round(time.Minute))
		}
	}

	// Output:
	// alice: allowed, 1 of 2 left
	// alice: allowed, 0 of 2 left
	// alice: denied, try again in 30m0s
	// bob: allowed, 1 of 2 left
}

// Limits are written in code as a struct, or as a short text: in a flag, a rule file, a test.
func ExampleParseLimit() {
	for _, text := range []string{
		"600/s burst 100",                       // a token bucket: 100 at once, 600 a second in the long run
		"10/s leaky-bucket queue 20",            // one every 100 ms; 20 may wait for their turn
		"1000/day tz Europe/Vienna",             // from midnight to midnight in Vienna
		"100/min sliding-window slices 6",       // 100 in any minute, off by ten seconds at most
		"20 concurrent ttl 5m",                  // 20 in flight
		"100/minute  TOKEN-BUCKET   BURST  100", // spellings and spaces are free
	} {
		limit, err := tidegate.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(limit)
	}

	// Output:
	// 600/s burst 100
	// 10/s leaky-bucket queue 20
	// 1000/day fixed-window tz Europe/Vienna
	// 100/min sliding-window slices 6
	// 20 concurrent ttl 5m
	// 100/min
}

// What is wrong with a limit is told in one line, together with a right one. A limit that cannot be counted exactly is
// refused as well, instead of being rounded.
func ExampleParseLimit_errors() {
	for _, text := range []string{"0.5/s", "10/s bursts 3", "100/month token-bucket"} {
		_, err := tidegate.ParseLimit(text)
		fmt.Println(err)
	}

	// Output:
	// limit "0.5/s": the rate is 0.5, which is not a whole number: for half a token a second write "1/2s"
	// limit "10/s bursts 3": "bursts" is not an option: did you mean "burst", as in "10/s burst 20"?
	// limit "100/month token-bucket": a calendar month has no constant length, so token-bucket cannot count it: count it with "1000/month fixed-window", or give a length in hours, as in "1000/720h"
}

// A take can cost more than one token: rows of a query, bytes, recipients of a mail. All of the cost is charged or none.
func ExampleLimiter_AllowN() {
	store := memstore.New(nil)
	defer store.Close()
	mails, _ := tidegate.New(store, tidegate.Limit{Rate: 100, Per: 24 * time.Hour}, nil)

	ctx := context.Background()
	for _, recipients := range []int64{70, 40, 30} {
		d, _ := mails.AllowN(ctx, "team:42", recipients)
		fmt.Println(recipients, d.Allowed, d.Remaining)
	}

	// Output:
	// 70 true 30
	// 40 false 30
	// 30 true 0
}

// A pitfall: a cost above the burst can never pass, however long one waits. Give the limit a burst as large as the
// largest cost.
func ExampleLimiter_AllowN_never() {
	store := memstore.New(nil)
	defer store.Close()
	limiter, _ := tidegate.New(store, tidegate.Limit{Rate: 100, Per: time.Second, Burst: 10}, nil)

	ctx := context.Background()
	d, err := limiter.AllowN(ctx, "k", 11)
	fmt.Println(d.Allowed, d.RetryAfter == tidegate.Never, err)
	fmt.Println(limiter.WaitN(ctx, "k", 11))

	// Output:
	// false true <nil>
	// tidegate: can never pass
}

// A peek answers whether a cost of 1 would pass, and changes nothing.
func ExampleLimiter_Peek() {
	store := memstore.New(nil)
	defer store.Close()
	limiter, _ := tidegate.New(store, tidegate.Limit{Rate: 5, Per: time.Hour}, nil)

	ctx := context.Background()
	_, _ = limiter.AllowN(ctx, "k", 3)
	for range 2 {
		d, _ := limiter.Peek(ctx, "k")
		fmt.Println(d.Allowed, d.Remaining)
	}

	// Output:
	// true 2
	// true 2
}

// Wait sleeps until the token may be used. It does not wait for what cannot be: when the turn would come after the
// context's deadline, it says so at once, and nothing is charged.
func ExampleLimiter_Wait() {
	store := memstore.New(nil)
	defer store.Close()
	limiter, _ := tidegate.New(store, tidegate.Limit{Rate: 1, Per: time.Minute}, nil)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(limiter.Wait(ctx, "k")) // the bucket is full: no need to sleep

	err := limiter.Wait(ctx, "k") // the next token comes in a minute
	var deadline *tidegate.DeadlineError
	fmt.Println(errors.As(err, &deadline), errors.Is(err, context.DeadlineExceeded))
	fmt.Println("would have taken", deadline.Need.Round(time.Second))

	// Output:
	// <nil>
	// true true
	// would have taken 1m0s
}

// A reservation charges now for a start that may be later. It is for callers who have something better to do than to
// sleep; one that is not used should be cancelled.
func ExampleLimiter_ReserveN() {
	store := memstore.New(nil)
	defer store.Close()
	limiter, _ := tidegate.New(store, tidegate.Limit{Rate: 60, Per: time.Hour, Burst: 10}, nil)

	ctx := context.Background()
	for range 2 {
		r, err := limiter.ReserveN(ctx, "k", 8)
		if err != nil || !r.OK() {
			fmt.Println("not within an hour:", err) // MaxWait, by default a period, bounds the delay
			return
		}
		fmt.Println("start in", r.Delay().Round(time.Minute))
		if r.Delay() > 5*time.Minute {
			fmt.Println("too late, cancel:", r.Cancel(ctx))
		}
	}
	d, _ := limiter.Peek(ctx, "k")
	fmt.Println(d.Remaining, "left")

	// Output:
	// start in 0s
	// start in 6m0s
	// too late, cancel: <nil>
	// 2 left
}

// Some costs are known only afterwards, such as the tokens of a language model's answer. Reserve an estimate and settle
// the true cost: a rest is given back, an excess is charged.
func ExampleReservation_Settle() {
	store := memstore.New(nil)
	defer store.Close()
	tokens, _ := tidegate.New(store, tidegate.Limit{Rate: 100_000, Per: 24 * time.Hour}, nil)

	ctx := context.Background()
	r, err := tokens.ReserveN(ctx, "tenant:7", 4000) // the most that the answer can have
	if err != nil || !r.OK() {
		fmt.Println("not now", err)
		return
	}
	// … call the model …
	fmt.Println(r.Settle(ctx, 650))
	fmt.Println(r.Settle(ctx, 650)) // works once, so that a retry cannot refund twice

	// Another process can settle it too: it needs the key and r.ID().
	fmt.Println(errors.Is(tokens.Settle(ctx, "tenant:7", r.ID(), 650), tidegate.ErrUnknownID))

	// Output:
	// <nil>
	// tidegate: unknown, settled or lapsed reservation or permit
	// true
}

// The view of one key reads like a rate.Limiter of golang.org/x/time.
func ExampleLimiter_Key() {
	store := memstore.New(nil)
	defer store.Close()
	api, _ := tidegate.New(store, tidegate.Limit{Rate: 3, Per: time.Hour}, nil)

	ctx := context.Background()
	limiter := api.Key("user:42")
	d, _ := limiter.AllowN(ctx, 2)
	fmt.Println(d.Allowed)
	tokens, _ := limiter.Tokens(ctx)
	fmt.Println(tokens, "of", limiter.Burst())
	fmt.Println(limiter.Wait(ctx))

	// Output:
	// true
	// 1 of 3
	// <nil>
}

// Permits limit what is in flight instead of a rate: connections, jobs, calls of a slow service. A permit is given back
// with Release; if its holder dies, it is free again after the limit's TTL, which Renew begins anew.
func ExampleLimiter_Acquire() {
	store := memstore.New(nil)
	defer store.Close()
	jobs, _ := tidegate.New(store, tidegate.Limit{Algorithm: tidegate.Concurrency, Rate: 2, TTL: time.Minute}, nil)

	ctx := context.Background()
	first, _ := jobs.Acquire(ctx, "tenant:7")
	second, _ := jobs.Acquire(ctx, "tenant:7")
	third, _ := jobs.Acquire(ctx, "tenant:7")
	fmt.Println(first.OK(), second.OK(), third.OK())

	fmt.Println("renewed:", first.Renew(ctx)) // a job that takes longer renews before the TTL is over
	fmt.Println("released:", first.Release(ctx))

	third, _ = jobs.Acquire(ctx, "tenant:7")
	fmt.Println(third.OK())

	// Output:
	// true true false
	// renewed: <nil>
	// released: <nil>
	// true
}

// Several limits on one request are one take, all or nothing: a request that the tenant's limit refuses costs the user
// nothing. There is a decision for each charge, and Combine makes one of them.
func ExampleStore_take() {
	store := memstore.New(nil)
	defer store.Close()
	perUser := &tidegate.Limit{Rate: 10, Per: time.Hour}
	perTenant := &tidegate.Limit{Rate: 3, Per: time.Hour}
	trial := &tidegate.Limit{Rate: 1, Per: time.Hour}

	ctx := context.Background()
	for range 2 {
		charges := []tidegate.Charge{
			{Rule: "user", Key: "alice", Limit: perUser, Cost: 2},
			{Rule: "tenant", Key: "acme", Limit: perTenant, Cost: 2},
			{Rule: "trial", Limit: trial, Cost: 2, Shadow: true}, // decides and tells, and never refuses
		}
		decisions, err := store.Take(ctx, charges, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, d := range decisions {
			fmt.Printf("  %-6s allowed %-5v remaining %d\n", d.Rule, d.Allowed, d.Remaining)
		}
		d := tidegate.Combine(charges, decisions)
		fmt.Printf("allowed %v by rule %s\n", d.Allowed, d.Rule)
	}

	// Output:
	//   user   allowed true  remaining 8
	//   tenant allowed true  remaining 1
	//   trial  allowed false remaining 1
	// allowed true by rule tenant
	//   user   allowed true  remaining 8
	//   tenant allowed false remaining 1
	//   trial  allowed false remaining 1
	// allowed false by rule tenant
}

// A limit can be changed while it is in use. What was spent stays spent: the share of the bucket that is in use carries
// over, so that a change neither refills a bucket nor empties it.
func ExampleLimiter_SetLimit() {
	store := memstore.New(nil)
	defer store.Close()
	// A rule that is named keeps its buckets when the limit changes from one release to the next, too.
	limiter, _ := tidegate.New(store, tidegate.Limit{Rate: 10, Per: time.Hour}, &tidegate.Config{Rule: "api"})

	ctx := context.Background()
	d, _ := limiter.AllowN(ctx, "k", 6)
	fmt.Println(d.Remaining, "of", d.Limit)

	if err := limiter.SetLimit(ctx, tidegate.Limit{Rate: 100, Per: time.Hour}); err != nil {
		fmt.Println(err)
		return
	}
	d, _ = limiter.Peek(ctx, "k")
	fmt.Println(d.Remaining, "of", d.Limit)

	// Output:
	// 4 of 10
	// 40 of 100
}

// Middleware knows a request by its attributes and is written against the interface Decider, which a limiter implements:
// it takes its key from the attribute that Config.KeyBy names. Without that attribute the limit does not apply.
func ExampleLimiter_Decide() {
	store := memstore.New(nil)
	defer store.Close()
	var decider tidegate.Decider
	decider, err := tidegate.New(store, tidegate.Limit{Rate: 1, Per: time.Hour}, &tidegate.Config{Rule: "per-user", KeyBy: "user"})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	for _, request := range []tidegate.AttributeMap{{"user": "alice"}, {"user": "alice"}, {"path": "/"}} {
		d, _ := decider.Decide(ctx, request, 1)
		fmt.Printf("%v %v %q\n", d.Allowed, d.Source, d.Rule)
	}

	// Output:
	// true store "per-user"
	// false store "per-user"
	// true unlimited ""
}

// The JSON of a decision is what the service and the command answer: seconds are decimals, null is never or unlimited.
func ExampleDecision_MarshalJSON() {
	for _, d := range []tidegate.Decision{
		{Allowed: true, Limit: 20, Remaining: 19, ResetAfter: 100 * time.Millisecond, Rule: "example"},
		{Limit: 20, Remaining: 20, RetryAfter: tidegate.Never, Rule: "example"},
	} {
		text, err := json.Marshal(d)
		fmt.Println(string(text), err)
	}

	// Output:
	// {"allowed":true,"limit":20,"remaining":19,"retry_after_seconds":0,"reset_after_seconds":0.1,"delay_seconds":0,"rule":"example","source":"store"} <nil>
	// {"allowed":false,"limit":20,"remaining":20,"retry_after_seconds":null,"reset_after_seconds":0,"delay_seconds":0,"rule":"example","source":"store"} <nil>
}

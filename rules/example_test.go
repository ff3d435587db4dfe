package rules_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
	"github.com/tidegate-go/tidegate/rules"
)

func Example() {
	set, err := rules.Parse("rules.yaml", []byte(`
version: 1
rules:
  - name: global
    limit: 600/s burst 100
  - name: per-user
    match: {path: /api/**}
    key: [user]
    limit: 100/min burst 20
    overrides:
      - match: {user: "vip-*"}
        limit: 1000/min burst 200
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	store := memstore.New(nil)
	defer store.Close()
	engine, err := rules.New(store, set, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, user := range []string{"42", "vip-7"} {
		request := tidegate.AttributeMap{"path": "/api/x", "user": user}
		for _, cost := range []int64{20, 1} {
			d, err := engine.Decide(context.Background(), request, cost)
			fmt.Println(user, cost, d.Allowed, d.Rule, d.Remaining, err)
		}
	}
	// Output:
	// 42 20 true per-user 0 <nil>
	// 42 1 false per-user 0 <nil>
	// vip-7 20 true global 60 <nil>
	// vip-7 1 true global 59 <nil>
}

// Everything that is wrong with a file is said at once.
func ExampleParse_errors() {
	_, err := rules.Parse("rules.yaml", []byte(`version: 1
rules:
  - name: per-user
    key: [user]
    limt: 100/min
  - name: per-user
    limit: 10/fortnight
`))
	fmt.Println(err)
	// Output:
	// rules.yaml:3:5: the limit is missing (write for example "limit: 600/s burst 100")
	// rules.yaml:5:5: unknown key "limt" (did you mean "limit"?)
	// rules.yaml:6:11: a second rule of the name "per-user" (the first is at line 3: their buckets would be the same, give each its own name)
	// rules.yaml:7:12: limit "10/fortnight": "fortnight" is not a unit of time (the units are s, min, h, day, week, month and year, as in "10/2week")
}

// A change of the rules keeps what was spent.
func ExampleEngine_Swap() {
	parse := func(limit string) *rules.Set {
		set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules: [{name: all, limit: "+limit+"}]"))
		if err != nil {
			fmt.Println(err)
		}
		return set
	}
	store := memstore.New(nil)
	defer store.Close()
	engine, err := rules.New(store, parse("100/day"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for range 50 {
		if _, err := engine.Decide(ctx, tidegate.AttributeMap{}, 1); err != nil {
			fmt.Println(err)
		}
	}
	changes := engine.Swap(parse("200/day"), time.Now())
	fmt.Print(changes[0].Before, changes[0].After)
	d, err := engine.TakeKey(ctx, "all", nil, 0) // peek
	fmt.Println(d.Remaining, "of", d.Limit, err)
	// Output:
	//   - name: all
	//     limit: 100/day
	//   - name: all
	//     limit: 200/day
	// 100 of 200 <nil>
}

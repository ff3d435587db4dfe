package rules

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/memstore"
)

// exercise is an engine of an example, and the test that it is for.
type exercise struct {
	t *testing.T
	e *Engine
}

// exercises are what the examples promise, by their files. Each runs in virtual time.
var exercises = map[string]func(exercise){
	"login.yaml": func(x exercise) {
		t, e := x.t, x.e
		from := func(ip, user string) attrs {
			return attrs{"path": "/login", "method": "POST", "ip": ip, "user": user}
		}
		wantAllowed(t, e, from("192.0.2.1", "ann"), 9, 5, "login-per-address")
		for i := range 15 { // an attack on one account from many addresses
			wantAllowed(t, e, from(fmt.Sprintf("198.51.100.%d", i), "ann"), 1, 1, "")
		}
		wantAllowed(t, e, from("198.51.100.99", "ann"), 1, 0, "login-per-account")
		wantAllowed(t, e, from("198.51.100.99", "bob"), 1, 1, "")
		wantAllowed(t, e, from("10.1.2.3", "watch"), 20, 20, "") // our monitoring has the account's limit alone
		if e.Set().Rule("login-per-account").OnStoreFailure.Action != tidegate.FailDeny {
			t.Error("guesses are free when the store is away")
		}
	},
	"tiers.yaml": func(x exercise) {
		t, e := x.t, x.e
		for user, burst := range map[string]int{"42": 20, "acme": 500, "globex": 500, "vip-7": 200} {
			wantAllowed(t, e, attrs{"path": "/api/x", "user": user}, burst+7, burst, "per-user")
		}
		wantAllowed(t, e, attrs{"path": "/api/x", "user": "internal"}, 1000, 1000, "")
		wantAllowed(t, e, attrs{"path": "/api/x"}, 3, 0, "per-user")
		wantAllowed(t, e, attrs{"path": "/about"}, 50, 50, "")
	},
	"levels.yaml": func(x exercise) {
		t, e := x.t, x.e
		wantAllowed(t, e, attrs{"tenant": "a", "user": "greedy"}, 200, 20, "per-user")
		wantAllowed(t, e, attrs{"tenant": "a", "user": "x"}, 20, 20, "")
		wantAllowed(t, e, attrs{"tenant": "a", "user": "y"}, 20, 10, "per-tenant") // 50 for the tenant, none lost to greedy
		wantAllowed(t, e, attrs{"tenant": "b", "user": "greedy"}, 20, 20, "")
		wantAllowed(t, e, attrs{"tenant": "c", "user": "z"}, 20, 20, "")
		wantAllowed(t, e, attrs{"tenant": "d", "user": "z"}, 20, 10, "global") // 100 for all
	},
	"hot-items.yaml": func(x exercise) {
		t, e := x.t, x.e
		wantAllowed(t, e, attrs{"path": "/items/1", "method": "GET", "item": "1"}, 400, 50, "hot-items")
		for i := 2; i < 8; i++ {
			wantAllowed(t, e, attrs{"path": "/items/9", "method": "GET", "item": fmt.Sprint(i)}, 50, 50, "")
		}
	},
	"monthly.yaml": func(x exercise) {
		t, e := x.t, x.e
		zone, err := time.LoadLocation("Asia/Shanghai")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now().In(zone)
		midnight := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, zone)
		first := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, zone)
		a := attrs{"tenant": "a"}
		if d := decide(t, e, a, 100_000); !d.Allowed || d.Rule != "day" {
			t.Errorf("a day's quota: %+v", d)
		}
		if d := decide(t, e, a, 1); d.Allowed || d.RetryAfter != time.Until(midnight) {
			t.Errorf("beyond it: %+v, want a wait until %v", d, midnight)
		}
		d, err := e.TakeKey(context.Background(), "month", []string{"a"}, 900_000)
		if err != nil || !d.Allowed || d.ResetAfter != time.Until(first) {
			t.Errorf("the month: %+v, %v, want it over at %v", d, err, first)
		}
	},
	"llm.yaml": func(x exercise) {
		t, e := x.t, x.e
		ctx := context.Background()
		h, err := e.Reserve(ctx, "tokens", []string{"team-a"}, 4000)
		if err != nil || !h.Decision.Allowed || h.Decision.Remaining != 86_000 {
			t.Fatalf("reserve: %+v, %v", h, err)
		}
		if err := e.Settle(ctx, "tokens", []string{"team-a"}, h.ID, 1234); err != nil {
			t.Fatal(err)
		}
		d := decide(t, e, attrs{"team": "team-a", "tokens": "766"}, 1)
		if left := tokens(t, e, "team-a"); !d.Allowed || left != 88_000 {
			t.Errorf("%d tokens are left, want 88000: %+v", left, d)
		}
		wantAllowed(t, e, attrs{"team": "team-a", "tokens": "88001"}, 1, 0, "tokens")
		wantAllowed(t, e, attrs{"team": "research", "tokens": "400000"}, 1, 1, "")
		wantAllowed(t, e, attrs{"team": "team-a"}, 1, 0, "tokens")
		wantAllowed(t, e, attrs{"team": "team-a", "tokens": "many"}, 1, 0, "tokens")
		if left := tokens(t, e, "team-a"); left != 88_000 {
			t.Errorf("refusals cost %d tokens", 88_000-left)
		}
	},
	"shadow.yaml": func(x exercise) {
		t, e := x.t, x.e
		tenth := 0
		for i := range 300 {
			allowed := countAllowed(t, e, attrs{"user": fmt.Sprint(i), "path": "/search/x"}, 30)
			switch allowed {
			case 30:
			case 10:
				tenth++
			default:
				t.Fatalf("user %d has %d", i, allowed)
			}
		}
		if tenth < 15 || tenth > 50 {
			t.Errorf("the next limit is enforced for %d of 300 users", tenth)
		}
	},
	"shedding.yaml": func(x exercise) {
		t, e := x.t, x.e
		s := e.Set()
		b := s.Rule("database").Breaker
		if b == nil || b.FailureRatio != 0.5 || b.SlowAfter != time.Second {
			t.Errorf("the breaker: %+v", b)
		}
		if to := s.Rule("reports").Tighten; len(to) != 1 || to[0] != (Tighten{"database", 0.2}) {
			t.Errorf("reports: %+v", to)
		}
		if to := s.Rule("recommendations").Tighten; len(to) != 1 || to[0].To != 0 {
			t.Errorf("recommendations: %+v", to)
		}
		wantAllowed(t, e, attrs{"path": "/reports/1"}, 90, 50, "reports") // while it is closed
		wantAllowed(t, e, attrs{"path": "/orders/1"}, 50, 50, "")
	},
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/rules/*.yaml")
	if err != nil || len(files) != len(exercises) {
		t.Fatalf("%d examples, and exercises for %d: %v", len(files), len(exercises), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			set, err := Load(file)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New(nil)
				defer store.Close()
				e, err := New(store, set, nil)
				if err != nil {
					t.Fatal(err)
				}
				exercises[filepath.Base(file)](exercise{t, e})
			})
		})
	}
}

// wantAllowed takes so many times, and wants so many allowed and the rest refused by the rule.
func wantAllowed(t *testing.T, e *Engine, a attrs, takes, want int, rule string) {
	t.Helper()
	allowed := 0
	for range takes {
		if d := decide(t, e, a, 1); d.Allowed {
			allowed++
		} else if d.Rule != rule {
			t.Fatalf("%v: refused by %q, want %q", a, d.Rule, rule)
		}
	}
	if allowed != want {
		t.Errorf("%v: %d of %d allowed, want %d", a, allowed, takes, want)
	}
}

func countAllowed(t *testing.T, e *Engine, a attrs, takes int) int {
	t.Helper()
	allowed := 0
	for range takes {
		if decide(t, e, a, 1).Allowed {
			allowed++
		}
	}
	return allowed
}

// tokens is how many tokens of the model a team has left.
func tokens(t *testing.T, e *Engine, team string) int64 {
	t.Helper()
	d, err := e.TakeKey(context.Background(), "tokens", []string{team}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

package rules

import (
	"reflect"
	"strings"
)

// The types of this file say which keys a file of rules has, and what is written under them. The parser takes its keys from
// them, and docs/rules.schema.json is generated from them, with these descriptions.

type fileForm struct {
	Version int        `json:"version" jsonschema:"enum=1,description=The version of the format."`
	Rules   []ruleForm `json:"rules" jsonschema:"minItems=1,description=The rules. All that match a request apply together."`
}

type ruleForm struct {
	Name           scalarForm     `json:"name" jsonschema:"description=What decisions\\, metrics and buckets are known by. No two rules have one name."`
	Match          matchForm      `json:"match,omitempty" jsonschema:"description=Conditions on attributes\\, of which a request must meet all. Default: every request."`
	Key            keyForm        `json:"key,omitempty" jsonschema:"description=The attributes that make the key: a bucket for each of their values. Default: one bucket that all requests share."`
	Limit          limitForm      `json:"limit" jsonschema:"description=How much may pass\\, such as 600/s burst 100."`
	Then           limitForm      `json:"then,omitempty" jsonschema:"description=What counts once a limit with an end has ended."`
	Overrides      []overrideForm `json:"overrides,omitempty" jsonschema:"minItems=1,description=Other limits for some keys. The first that matches wins."`
	Cost           costForm       `json:"cost,omitempty" jsonschema:"description=What a request costs: a number\\, or the attribute that holds it. Default: 1."`
	OnStoreFailure failureForm    `json:"on_store_failure,omitempty" jsonschema:"description=What decides when the store fails. Default: local."`
	Shadow         bool           `json:"shadow,omitempty" jsonschema:"description=Decide and count\\, but never refuse."`
	Enforce        percentForm    `json:"enforce,omitempty" jsonschema:"description=The part of the keys that the rule is enforced for; it is in shadow for the rest."`
	Missing        missingForm    `json:"missing,omitempty" jsonschema:"description=What becomes of a request that lacks an attribute of the key or the cost. Default: skip."`
	Breaker        breakerForm    `json:"breaker,omitzero" jsonschema:"description=When to stop calling what is behind the rule."`
	Tighten        tightenForm    `json:"tighten,omitempty" jsonschema:"description=How much of the limit is left while the breaker of a rule is not closed."`
}

type overrideForm struct {
	Match matchForm `json:"match" jsonschema:"description=Conditions on parts of the key."`
	Limit limitForm `json:"limit" jsonschema:"description=What counts instead of the rule's own limit."`
	Then  limitForm `json:"then,omitempty" jsonschema:"description=What counts once a limit with an end has ended."`
}

// longLimitForm is a limit as a mapping.
type longLimitForm struct {
	Rate       scalarForm `json:"rate,omitempty" jsonschema:"description=Tokens per period; with the period\\, as in 600/s\\, or beside it."`
	Per        scalarForm `json:"per,omitempty" jsonschema:"description=The period\\, such as s\\, min or 30s."`
	Concurrent scalarForm `json:"concurrent,omitempty" jsonschema:"description=Permits in flight\\, instead of a rate."`
	Burst      scalarForm `json:"burst,omitempty" jsonschema:"description=What a token bucket holds. Default: the rate."`
	Algorithm  scalarForm `json:"algorithm,omitempty" jsonschema:"description=token-bucket\\, leaky-bucket\\, fixed-window\\, sliding-window or sliding-log. Default: token-bucket."`
	Queue      scalarForm `json:"queue,omitempty" jsonschema:"description=How many takes a leaky bucket lets wait."`
	Slices     scalarForm `json:"slices,omitempty" jsonschema:"description=Into how many slices a sliding window is cut."`
	Warmup     scalarForm `json:"warmup,omitempty" jsonschema:"description=How long a cold bucket takes to its full rate."`
	TTL        scalarForm `json:"ttl,omitempty" jsonschema:"description=How long a permit is held unless it is renewed."`
	Tz         scalarForm `json:"tz,omitempty" jsonschema:"description=The time zone of a calendar unit."`
	Lease      scalarForm `json:"lease,omitempty" jsonschema:"description=For how long a process takes tokens ahead."`
	Shards     scalarForm `json:"shards,omitempty" jsonschema:"description=Over how many buckets the limit is spread."`
	Until      scalarForm `json:"until,omitempty" jsonschema:"description=When the limit ends\\, such as 2026-12-01T00:00:00Z."`
}

type breakerForm struct {
	FailureRatio  percentForm  `json:"failure_ratio,omitempty" jsonschema:"description=Trips when so many of the calls failed."`
	SlowRatio     percentForm  `json:"slow_ratio,omitempty" jsonschema:"description=Trips when so many of the calls were slow."`
	SlowAfter     durationForm `json:"slow_after,omitempty" jsonschema:"description=A call that takes longer is slow."`
	RefusalRatio  percentForm  `json:"refusal_ratio,omitempty" jsonschema:"description=Trips when the rule refused so many of the calls."`
	Window        durationForm `json:"window,omitempty" jsonschema:"description=Over how long calls are counted. Default: 10s."`
	MinimumCalls  int          `json:"minimum_calls,omitempty" jsonschema:"minimum=1,maximum=1000000,description=How many calls the window must hold. Default: 20."`
	OpenTime      durationForm `json:"open_time,omitempty" jsonschema:"description=How long the breaker is open. Default: 5s."`
	HalfOpenCalls int          `json:"half_open_calls,omitempty" jsonschema:"minimum=1,maximum=10000,description=How many calls it then lets through to try. Default: 5."`
	Ramp          durationForm `json:"ramp,omitempty" jsonschema:"description=Over how long it comes back to the whole. Default: 30s."`
}

type linkForm struct {
	Breaker scalarForm  `json:"breaker" jsonschema:"description=The rule that has the breaker."`
	To      percentForm `json:"to" jsonschema:"description=What is left of the limit; 0% sheds everything."`
}

// The forms of values. What they permit is said by the parser, and for editors where the schema is generated.
type (
	scalarForm   string
	matchForm    map[string]any
	keyForm      []string
	limitForm    any
	costForm     any
	tightenForm  any
	failureForm  string
	missingForm  string
	percentForm  string
	durationForm string
)

// The keys, in the order in which they are written.
var (
	fileKeys     = keysOf[fileForm]()
	ruleKeys     = keysOf[ruleForm]()
	overrideKeys = keysOf[overrideForm]()
	limitKeys    = keysOf[longLimitForm]()
	breakerKeys  = keysOf[breakerForm]()
	linkKeys     = keysOf[linkForm]()
)

// keysOf returns the keys of a form.
func keysOf[T any]() []string {
	t := reflect.TypeFor[T]()
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return keys
}

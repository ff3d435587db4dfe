// Package rules decides requests by many limits at once, as one YAML file of rules says.
//
// [Parse] reads a file, strictly, into a [Set] that never changes, or returns everything that is wrong with it, each with
// its line and column. An [Engine] joins a Set and a store: attributes in, one decision out. [Engine.Swap] puts another
// Set in its place, while takes go on.
//
//	set, err := rules.Load("rules.yaml")
//	…
//	engine, err := rules.New(store, set, nil)
//	…
//	d, err := engine.Decide(ctx, tidegate.AttributeMap{"path": "/api/x", "user": "42"}, 1)
//
// All rules that match a request are decided in one take, all or nothing: who is refused by one of them costs the others
// nothing. A rule in shadow decides and is counted, and refuses nobody.
//
// It imports the root package, internal/key and a YAML parser that keeps positions.
package rules

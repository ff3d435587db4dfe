package tidegate

import "context"

// Attributes are what is known of a request, from which keys are made: path, ip, user, ….
type Attributes interface {
	// Attribute returns the value of the attribute, and whether the request has it. An empty value is a value.
	Attribute(name string) (value string, ok bool)
}

// AttributeMap is [Attributes] in a map.
type AttributeMap map[string]string

// Attribute returns the value of the attribute.
func (m AttributeMap) Attribute(name string) (string, bool) {
	v, ok := m[name]
	return v, ok
}

// A Decider decides on a request by its attributes. Middleware is written against it: a [*Limiter] is one,
// and so is an engine of many rules.
type Decider interface {
	// Decide charges cost to every bucket that the attributes select, all or nothing, and answers for the whole.
	// The error is that of [Store.Take].
	Decide(ctx context.Context, attributes Attributes, cost int64) (Decision, error)
}

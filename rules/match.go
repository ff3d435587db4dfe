package rules

// Match are conditions on attributes, of which a request must meet all. They are in the order of the file, and no two
// are on one attribute.
type Match []Condition

// A Condition holds for a request whose attribute fits one of the patterns. A pattern that begins with "!" holds for
// what the rest does not fit; where there are several, a value must fit none of those with "!", and one of the others if
// there are others. A request without the attribute fits only where all patterns begin with "!".
type Condition struct {
	Attribute string
	// Patterns are as the file has them: an exact value, a glob, a CIDR block for the attribute "ip".
	Patterns []string

	compiled condition
}

type condition struct{}

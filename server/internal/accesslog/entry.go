package accesslog

import "time"

// The names of the fields that every format gives where its lines have them. Headers are [HeaderPrefix] and the header's name in
// lower case with underscores, as nginx names them. Formats that name their fields themselves, such as JSON, keep
// those under the names that they have, and add these.
const (
	Method   = "method"
	Path     = "path"  // as it was sent, without the query
	Query    = "query" // without the question mark
	Protocol = "protocol"
	Host     = "host"
	Address  = "remote_addr" // of the socket, or what the server had made of it; no port
	User     = "remote_user"
	Status   = "status"

	HeaderPrefix = "http_"
)

// A Field is something that a line says. A value that the log marks as missing, by a dash or by null, is no field.
type Field struct{ Name, Value string }

// An Entry is what a line says.
type Entry struct {
	// Time is when the line says that the request was: at its end, in most logs.
	Time time.Time
	// Whole says that the log writes whole seconds.
	Whole bool
	// AtStart says that Time is when the request began.
	AtStart bool
	// Fields are in the order of the line. A name that comes twice means the first.
	Fields []Field

	size int // in bytes, about, of the line and its fields
}

// Field returns the value of the first field of the name.
func (e *Entry) Field(name string) (string, bool) {
	for i := range e.Fields {
		if e.Fields[i].Name == name {
			return e.Fields[i].Value, true
		}
	}
	return "", false
}

// add adds a field, unless the log says that there is none.
func (e *Entry) add(name, value string) {
	if name != "" && value != "" && value != "-" {
		e.Fields = append(e.Fields, Field{name, value})
	}
}

// setTime sets the time to what a text says.
func (e *Entry) setTime(text string) error {
	t, whole, err := parseTime(text)
	if err != nil {
		return err
	}
	e.Time, e.Whole = t, whole
	return nil
}

// reset empties the entry; its fields become another slice, so that those of a copy remain.
func (e *Entry) reset(fields int) {
	*e = Entry{Fields: make([]Field, 0, fields)}
}

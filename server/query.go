package server

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// query reads what follows the path. A name that is not among the known ones, or one that is given twice, is an error, but
// that a key is given once for each part: what was meant by it would otherwise be lost.
func query(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("what follows the path cannot be read: %v; write special characters as %%2F and the like", err)
	}
	for name, values := range q {
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			return nil, badRequest("%q is unknown: %s takes none", name, r.URL.Path)
		case !slices.Contains(known, name):
			return nil, badRequest("%q is unknown: %s takes %s", name, r.URL.Path, strings.Join(known, ", "))
		case len(values) > 1 && name != "key":
			return nil, badRequest("%q is given %d times", name, len(values))
		}
	}
	return q, nil
}

// number is a whole number of the query, or what it is by default.
func number(q url.Values, name string, standard, least, most int) (int, error) {
	text := q.Get(name)
	if !q.Has(name) {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badRequest("%q is %q: it must be a whole number from %d to %d", name, text, least, most)
	}
	return n, nil
}

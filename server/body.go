package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidegate-go/tidegate"
	"github.com/tidegate-go/tidegate/rules"
)

const (
	maxBody = 64 << 10
	// maxIDBody is for the paths that take an id: one whose key filled a body of its own is a third longer than that.
	maxIDBody = 2 * maxBody
)

// The bodies of the paths. A pointer tells an absent member, or null, from one that is 0.

type takeBody struct {
	Rule       *string    `json:"rule"`
	Key        keyParts   `json:"key"`
	Attributes attributes `json:"attributes"`
	Cost       *int64     `json:"cost"`
	Reserve    bool       `json:"reserve"`
}

type peekBody struct {
	Rule       *string    `json:"rule"`
	Key        keyParts   `json:"key"`
	Attributes attributes `json:"attributes"`
}

type acquireBody struct {
	Rule *string  `json:"rule"`
	Key  keyParts `json:"key"`
	Cost *int64   `json:"cost"`
}

type resetBody struct {
	Rule *string  `json:"rule"`
	Key  keyParts `json:"key"`
}

type settleBody struct {
	ID   *string `json:"id"`
	Cost *int64  `json:"cost"`
}

type idBody struct {
	ID *string `json:"id"`
}

// keyParts is a key as a body has it.
type keyParts struct {
	form  keyForm
	parts []string
}

type keyForm uint8

const (
	keyAbsent keyForm = iota
	keyString
	keyArray
)

var errKeyForm = errors.New("must be a string, or an array of strings")

// UnmarshalJSONFrom reads a string, an array of strings, or null.
func (k *keyParts) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*k = keyParts{}
	kind := d.PeekKind()
	switch kind {
	case 'n':
		return d.SkipValue()
	case '"':
		k.form = keyString
		return k.readPart(d)
	case '[':
	default:
		if err := d.SkipValue(); err != nil {
			return err
		}
		return errKeyForm
	}
	k.form = keyArray
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		if err := k.readPart(d); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func (k *keyParts) readPart(d *jsontext.Decoder) error {
	t, err := d.ReadToken()
	switch {
	case err != nil:
		return err
	case t.Kind() != '"':
		return errKeyForm
	}
	k.parts = append(k.parts, t.String())
	return nil
}

// fit returns the parts if the key has the form that the rule wants, else what it wants.
func (k *keyParts) fit(r *rules.Rule) ([]string, error) {
	switch n := len(r.Key); {
	case n == 0 && k.form == keyAbsent, n == 1 && k.form == keyString, n > 1 && k.form == keyArray && len(k.parts) == n:
		return k.parts, nil
	case n == 0:
		return nil, badRequest(`rule %q has no key part: leave "key" out`, r.Name)
	case n == 1:
		return nil, badRequest(`rule %q has one key part, %s: send "key" as a string`, r.Name, r.Key[0])
	default:
		return nil, badRequest(`rule %q has the key parts %s: send "key" as an array of %d strings in this order`,
			r.Name, strings.Join(r.Key, ", "), n)
	}
}

// attributes is a request's as a body has them. One that is null is absent: as an empty value it would put all requests
// without it into one bucket.
type attributes map[string]*string

// Attribute returns the value of the attribute.
func (a attributes) Attribute(name string) (string, bool) {
	if v := a[name]; v != nil {
		return *v, true
	}
	return "", false
}

var _ tidegate.Attributes = attributes(nil)

// readBody reads the request's body into dst, strictly: a member that is unknown, or given twice, is an error, as what the
// client meant by it would otherwise be lost; and so are bytes that are not UTF-8, which would all become the same key.
func readBody(w http.ResponseWriter, r *http.Request, most int64, dst any) error {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return &apiError{status: http.StatusRequestEntityTooLarge,
				message: fmt.Sprintf("the body is above %d KiB", most>>10)}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return &apiError{status: http.StatusRequestTimeout, message: "the body did not arrive in time"}
		}
		return badRequest("the body could not be read: %v", err)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return badRequest(`the body is empty: send an object such as {"rule":"example","key":"user:1"}`)
	}
	if err := json.Unmarshal(b, dst, json.RejectUnknownMembers(true)); err != nil {
		return jsonError(err, dst)
	}
	return nil
}

// jsonError says in the words of the API what is wrong with a body.
func jsonError(err error, dst any) error {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(e, jsontext.ErrDuplicateName) {
			return badRequest("%q is given twice", e.JSONPointer.LastToken())
		}
		return badRequest("the body is not JSON: %v, after byte %d", e.Err, e.ByteOffset)
	}
	e, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return badRequest("the body is not as it should be: %v", err)
	}
	name := pointed(e.JSONPointer)
	switch {
	case errors.Is(e, json.ErrUnknownName):
		return badRequest("%q is unknown: the members are %s", e.JSONPointer.LastToken(), members(dst))
	case errors.Is(e, errKeyForm):
		return badRequest("%q %v", name, errKeyForm)
	case name == "":
		return badRequest(`the body must be an object such as {"rule":"example","key":"user:1"}`)
	default:
		return badRequest("%q must be %s", name, wanted(e.GoType))
	}
}

// pointed names the member that the pointer leads to: key, or attributes.user.
func pointed(p jsontext.Pointer) string {
	name := ""
	for token := range p.Tokens() {
		if name != "" {
			if _, err := strconv.Atoi(token); err == nil {
				break // an element of an array; its member is what the message is about
			}
			name += "."
		}
		name += token
	}
	return name
}

// members lists the names of the members of the body that dst points to.
func members(dst any) string {
	t := reflect.TypeOf(dst).Elem()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("json")
	}
	return strings.Join(names, ", ")
}

// wanted says what JSON the type is written as.
func wanted(t reflect.Type) string {
	switch {
	case t == nil:
		return "of another type"
	case t.Kind() == reflect.Pointer:
		return wanted(t.Elem())
	case t.Kind() == reflect.Int64:
		return "a whole number below 9007199254740992"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Map:
		return "an object of strings"
	}
	return "a string"
}

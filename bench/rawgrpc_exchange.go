package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// prefixSize is how long the prefix of a gRPC message is: whether it is compressed, and its length.
const prefixSize = 5

// exchange is one request and its answer. A caller keeps one for all its calls, one after another, so that they allocate nothing.
type exchange struct {
	sent []byte        // the request with its prefix
	done chan struct{} // holds one: the call has ended

	// What was answered. The connection's mutex guards it until the call has ended.
	told []byte // the answer with its prefix
	head head
	err  error // why there is no answer
}

// head is what the fields of an answer say, before and after its message.
type head struct{ http, code, message string }

func newExchange() *exchange { return &exchange{done: make(chan struct{}, 1)} }

// begin makes it ready for a request.
func (e *exchange) begin(message []byte) {
	e.sent = append(e.sent[:0], 0)
	e.sent = binary.BigEndian.AppendUint32(e.sent, uint32(len(message)))
	e.sent = append(e.sent, message...)
	e.told, e.head, e.err = e.told[:0], head{}, nil
}

// add takes in a part of the answer. It fails as soon as the answer is known to be larger than the window that the server has for
// it: both sides would wait for ever.
func (e *exchange) add(data []byte) error {
	e.told = append(e.told, data...)
	if len(e.told) < prefixSize {
		return nil
	}
	switch n := e.length(); {
	case n > largestAnswer-prefixSize:
		return fmt.Errorf("an answer of %d bytes is larger than this client takes, which is %d", n, largestAnswer-prefixSize)
	case len(e.told) > prefixSize+n:
		return fmt.Errorf("the message is of %d bytes, and more have come", n)
	}
	return nil
}

func (e *exchange) length() int { return int(binary.BigEndian.Uint32(e.told[1:prefixSize])) }

// update takes in fields of the answer.
func (e *exchange) update(h *head) {
	if h.http != "" {
		e.head.http = h.http
	}
	if h.code != "" {
		e.head.code, e.head.message = h.code, h.message
	}
}

// outcome is what the call has come to once it has ended.
func (e *exchange) outcome() ([]byte, error) {
	switch {
	case e.err != nil:
		return nil, e.err
	case e.head.code == "" && e.head.http != "200":
		return nil, fmt.Errorf("the server answered with HTTP status %q and no gRPC status", e.head.http)
	case e.head.code == "":
		return nil, errors.New("the server ended the stream without a gRPC status")
	case e.head.code != "0":
		return nil, e.head.error()
	case len(e.told) < prefixSize:
		return nil, errors.New("the server answered without a message")
	case e.told[0] != 0:
		return nil, errors.New("the server compressed its answer, though it was not told that it might")
	case e.length() != len(e.told)-prefixSize:
		return nil, fmt.Errorf("the message is of %d bytes, of which %d have come", e.length(), len(e.told)-prefixSize)
	}
	return e.told[prefixSize:], nil
}

// error is the status that the fields tell of.
func (h *head) error() error {
	code, err := strconv.ParseUint(h.code, 10, 32)
	if err != nil {
		return fmt.Errorf("the gRPC status %q is not a number", h.code)
	}
	message, err := url.PathUnescape(h.message)
	if err != nil {
		message = h.message
	}
	return status.Error(codes.Code(code), message)
}

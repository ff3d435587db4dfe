package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// token is the hash of what operators send; comparing hashes tells nothing of the token, not even its length.
type token [sha256.Size]byte

func newToken(secret string) *token {
	t := token(sha256.Sum256([]byte(secret)))
	return &t
}

// authorize returns an error unless the request carries the token. What is the thing that needs it.
func (s *Server) authorize(r *http.Request, what string) error {
	if s.token == nil {
		return &apiError{status: http.StatusForbidden, message: what +
			" needs a token, and this server has none: start it with --token-file FILE or the variable TIDEGATE_TOKEN"}
	}
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if ok && strings.EqualFold(scheme, "Bearer") {
		sent := newToken(strings.TrimLeft(secret, " "))
		if subtle.ConstantTimeCompare(sent[:], s.token[:]) == 1 {
			return nil
		}
		return &apiError{status: http.StatusUnauthorized, challenge: true, message: "the token is not this server's"}
	}
	return &apiError{status: http.StatusUnauthorized, challenge: true, message: what +
		` needs the token: send it as "Authorization: Bearer TOKEN"`}
}

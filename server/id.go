package server

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
)

// heldID is what the id of a reservation or a permit says: which bucket holds it, and under which name. The id carries it
// all, so that any replica can settle, renew or release what another one handed out, and none has to remember it.
type heldID struct {
	rule  string
	parts []string // of the key, as the request gave them
	name  string   // the store's name for it, which cannot be guessed
}

const (
	idVersion = 1
	nameLen   = 26 // of crypto/rand.Text
	nameChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

var errBadID = errors.New(`"id" is not one that this service handed out: send the "id" of the take or acquire as it was`)

// String returns the id as clients see it: base64url of the version, the name, and the rule and the parts with their lengths.
func (h *heldID) String() string {
	b := append([]byte{idVersion}, h.name...)
	b = appendText(b, h.rule)
	for _, p := range h.parts {
		b = appendText(b, p)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// parseID reads what String wrote, and nothing else: no two ids mean the same.
func parseID(id string) (*heldID, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(b) < 1+nameLen || b[0] != idVersion {
		return nil, errBadID
	}
	h := &heldID{name: string(b[1 : 1+nameLen])}
	if strings.Trim(h.name, nameChars) != "" {
		return nil, errBadID
	}
	for b = b[1+nameLen:]; len(b) > 0; {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return nil, errBadID
		}
		h.parts = append(h.parts, string(b[size:size+int(n)]))
		b = b[size+int(n):]
	}
	if len(h.parts) == 0 {
		return nil, errBadID
	}
	h.rule, h.parts = h.parts[0], h.parts[1:]
	if h.String() != id { // base64 skips line ends, and a length can be written in more bytes than it needs
		return nil, errBadID
	}
	return h, nil
}

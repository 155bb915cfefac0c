package election

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/batuta-dev/batuta/internal/nfc"
)

// ID names a member. It is unique in its cluster, never changes while the process lives, and is
// totally ordered among ids of the same [Kind].
type ID string

// None is no member at all: the "@" of `elected = @` ("Leader election").
const None ID = ""

// MaxID is the maximum length of an id, in bytes.
const MaxID = 128

// Kind is the sort of name that an id is. All ids of a cluster have the same kind. Only then is
// "highest" defined.
type Kind int

// The kinds of id, each with its order.
const (
	Integer Kind = iota // decimal digits, by value
	Address             // IPv4 or IPv6, by value: 172.18.0.10 is above 172.18.0.9
	UUID                // RFC 9562 text form, by bytes
	Name                // anything else, by bytes
)

func (k Kind) String() string {
	return [...]string{"integer", "IP address", "UUID", "name"}[k]
}

// ParseID returns the canonical form of s: an integer without leading zeros, an address as
// net/netip prints it, a UUID in lower case, or a name in Unicode's form NFC. So two spellings
// give the same id. It refuses an s that is empty, longer than [MaxID] bytes, or not UTF-8, or
// begins with a combining mark. It refuses "." and "..", which no path of the HTTP API can have, and
// "=", "/", white space and what is not printable: control characters, zero-width and bidirectional
// marks.
func ParseID(s string) (ID, error) {
	switch {
	case s == "":
		return None, fmt.Errorf("id is empty: give a number, an IP address, a UUID or a name")
	case len(s) > MaxID:
		return None, fmt.Errorf("id of %d bytes is too long: at most %d", len(s), MaxID)
	case s == "." || s == "..":
		return None, fmt.Errorf("id %q is none that a path of the HTTP API can have: choose another", s)
	case !utf8.ValidString(s):
		return None, fmt.Errorf("id %q is not UTF-8", s)
	}
	if s = nfc.String(s); len(s) > MaxID {
		return None, fmt.Errorf("id of %d bytes in Unicode's form NFC is too long: at most %d", len(s), MaxID)
	}
	for i, r := range s {
		if !prints(r) || r == '=' || r == '/' {
			return None, fmt.Errorf("id %q holds %q: leave out white space, control characters, marks that do not print, '=' and '/'", s, r)
		}
		if i == 0 && unicode.IsMark(r) {
			return None, fmt.Errorf("id %q begins with the combining mark %q: put a letter before it", s, r)
		}
	}
	switch id := ID(s); id.Kind() {
	case Integer:
		if s = strings.TrimLeft(s, "0"); s == "" {
			s = "0"
		}
	case Address:
		a, _ := netip.ParseAddr(s)
		s = a.Unmap().String()
	case UUID:
		s = strings.ToLower(s)
	}
	return ID(s), nil
}

// Kind returns the sort of name that id is, only by its form.
func (id ID) Kind() Kind {
	switch {
	case isInteger(id):
		return Integer
	case isUUID(id):
		return UUID
	}
	if _, err := netip.ParseAddr(string(id)); err == nil {
		return Address
	}
	return Name
}

// Compare orders ids of the same kind: it is negative when id is below other. Ids of different
// kinds have an order too (by bytes), so sorting never panics, but a cluster never has both.
func (id ID) Compare(other ID) int {
	if id == other {
		return 0
	}
	if isInteger(id) && isInteger(other) {
		return cmp.Or(cmp.Compare(len(id), len(other)), strings.Compare(string(id), string(other)))
	}
	if mayBeAddress(id) && mayBeAddress(other) {
		a, errA := netip.ParseAddr(string(id))
		b, errB := netip.ParseAddr(string(other))
		if errA == nil && errB == nil {
			return a.Compare(b)
		}
	}
	return strings.Compare(string(id), string(other))
}

func isInteger(id ID) bool {
	for i := range len(id) {
		if id[i] < '0' || id[i] > '9' {
			return false
		}
	}
	return id != ""
}

// mayBeAddress is a cheap test that avoids parsing names.
func mayBeAddress(id ID) bool {
	return strings.ContainsAny(string(id), ".:")
}

func isUUID(id ID) bool {
	if len(id) != 36 {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return false
		}
	}
	return true
}

// Rank is what the election compares: priority first, then id. The highest rank wins, hence
// "bully".
type Rank struct {
	Priority int `cbor:"p,omitempty"`
	ID       ID  `cbor:"i,omitempty"`
}

// Compare orders ranks: it is negative when r is below other.
func (r Rank) Compare(other Rank) int {
	return cmp.Or(cmp.Compare(r.Priority, other.Priority), r.ID.Compare(other.ID))
}

// Above reports whether r outranks other.
func (r Rank) Above(other Rank) bool { return r.Compare(other) > 0 }

// MaxEpoch is the highest epoch that batuta accepts: 2^53−1, the largest integer that every JSON
// reader keeps exact. At an election per millisecond it lasts 285,000 years. A message beyond it
// is damaged or malicious and is dropped.
const MaxEpoch = 1<<53 - 1

// Token identifies a leadership: the epoch, "constant from leader election to leader death,
// bumped by a new round" (docs/sources.md, "Epochs"), and its leader. Tokens are ordered by
// epoch, then rank. The zero Token is no leadership, below all tokens.
//
// Two sides of a partition may count the same epoch: compare the token, by [Token.Compare],
// never the epoch alone. Only under quorum is it a fence.
type Token struct {
	Epoch  uint64 `cbor:"e,omitempty"`
	Leader Rank   `cbor:"l,omitempty"`
}

// Compare orders tokens: it is negative when t is below other.
func (t Token) Compare(other Token) int {
	return cmp.Or(cmp.Compare(t.Epoch, other.Epoch), t.Leader.Compare(other.Leader))
}

// Above reports whether t is higher than other.
func (t Token) Above(other Token) bool { return t.Compare(other) > 0 }

// Defined reports whether the token names a leader.
func (t Token) Defined() bool { return t.Leader.ID != None }

// String returns "epoch:leader", such as "7:5", and "" when there is no leader.
func (t Token) String() string {
	if !t.Defined() {
		return ""
	}
	return fmt.Sprintf("%d:%s", t.Epoch, t.Leader.ID)
}

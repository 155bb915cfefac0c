package named

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/batuta-dev/batuta/internal/nfc"
)

// Bounds.
const (
	MaxName      = 256     // bytes of an election's name
	MaxElections = 1 << 16 // names in a cluster
	MaxSeats     = 64      // leaders at once of a name
	MaxWeight    = 1 << 20 // what a name may cost its leader
)

// ErrTooMany is returned if a cluster has [MaxElections] names.
var ErrTooMany = fmt.Errorf("%d elections, and a cluster holds at most %d: end some, or use another cluster", MaxElections, MaxElections)

// Name returns the canonical form of an election's name (Unicode NFC), or an error: it has 1 to
// [MaxName] bytes of UTF-8, all of which print or are spaces, and is not "." or "..".
func Name(name string) (string, error) {
	if name == "" {
		return "", errors.New("an election needs a name")
	}
	if name == "." || name == ".." {
		return "", fmt.Errorf("election name %q is none that a path of the HTTP API can have: choose another", name)
	}
	if !utf8.ValidString(name) {
		return "", fmt.Errorf("election name %.64q is no UTF-8", name)
	}
	if name = nfc.String(name); len(name) > MaxName {
		return "", fmt.Errorf("election name of %d bytes is too long: at most %d", len(name), MaxName)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", fmt.Errorf("election name %.64q holds what does not print: leave out control characters", name)
	}
	return name, nil
}

// Candidacy is how a member is a candidate for an election. The zero value works.
type Candidacy struct {
	Weight int  // what the election costs its leader, 1 to [MaxWeight]; default 1. Of several candidates' the greatest counts
	Prefer bool // this member is to lead if it may
	Seats  int  // how many lead at once, 1 to [MaxSeats]; default 1. Of several candidates' the greatest counts
}

// Check returns c with its defaults, or an error with what is wrong.
func (c Candidacy) Check() (Candidacy, error) {
	switch {
	case c.Weight < 0 || c.Weight > MaxWeight:
		return c, fmt.Errorf("weight %d: give a number of 1 to %d", c.Weight, MaxWeight)
	case c.Seats < 0 || c.Seats > MaxSeats:
		return c, fmt.Errorf("%d seats: give a number of 1 to %d", c.Seats, MaxSeats)
	}
	c.Weight, c.Seats = max(c.Weight, 1), max(c.Seats, 1)
	return c, nil
}

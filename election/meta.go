package election

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// Bounds of a member's metadata.
const (
	MaxMetaPairs = 16   // pairs of a member
	MaxMetaKey   = 64   // bytes of a key
	MaxMetaBytes = 1024 // bytes of all keys and values of a member together
)

// Meta is a member's metadata: pairs that any member can look up, such as the URL of its
// service. Only the member itself makes a new version; the rest pass the highest on. A Meta is
// never changed after it has been made.
type Meta struct {
	ID          ID                `cbor:"i"`
	Incarnation uint64            `cbor:"n"`           // of the process that published it
	Version     uint64            `cbor:"v,omitempty"` // counts the versions that the process published, from 0
	Pairs       map[string]string `cbor:"p,omitempty"` // none: the metadata of an earlier process is withdrawn
}

// Supersedes reports whether m replaces old: a later process does, and for the same process a
// higher version. If both are equal, any order will do that is the same everywhere.
func (m Meta) Supersedes(old Meta) bool {
	return cmp.Or(
		cmp.Compare(m.Incarnation, old.Incarnation),
		cmp.Compare(m.Version, old.Version),
		cmp.Compare(string(appendPairs(nil, m.Pairs)), string(appendPairs(nil, old.Pairs))),
	) > 0
}

// Check refuses metadata that no member can publish. If the id is the reason, its error wraps
// [ErrID].
func (m Meta) Check() error {
	if m.ID == None {
		return idError{fmt.Errorf("meta: an entry without an id")}
	}
	if err := CheckIDs(m.ID); err != nil {
		return err
	}
	if m.Version > MaxVersion || m.Incarnation == 0 {
		return fmt.Errorf("meta of member %s: incarnation %d, version %d", m.ID, m.Incarnation, m.Version)
	}
	if err := CheckMeta(m.Pairs); err != nil {
		return fmt.Errorf("meta of member %s: %w", m.ID, err)
	}
	return nil
}

// CheckMeta returns what is wrong with pairs as a member's metadata, or nil. A key is a letter
// and then letters, digits, '.', '_' and '-'. A value is printable text, spaces included, and
// may be empty. Two keys must not give the same variable (see [MetaVariable]).
func CheckMeta(pairs map[string]string) error {
	if len(pairs) > MaxMetaPairs {
		return fmt.Errorf("%d pairs: the metadata of a member has at most %d", len(pairs), MaxMetaPairs)
	}
	size := 0
	variables := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		value := pairs[key]
		size += len(key) + len(value)
		switch variable := MetaVariable(key); {
		case len(key) > MaxMetaKey:
			return fmt.Errorf("key %.16s… of %d bytes: at most %d", Shown(key), len(key), MaxMetaKey)
		case !isMetaKey(key):
			return fmt.Errorf("key %q: begin with a letter, and go on with letters, digits, '.', '_' and '-'", Shown(key))
		case variables[variable] != "":
			return fmt.Errorf("keys %s and %s would both be %s in the environment of commands: rename one", variables[variable], key, variable)
		default:
			variables[variable] = key
		}
		if !Printable(value, len(value)) {
			return fmt.Errorf("value of %s: it holds what does not print: leave out control characters and marks", key)
		}
	}
	if size > MaxMetaBytes {
		return fmt.Errorf("%d bytes of keys and values: at most %d", size, MaxMetaBytes)
	}
	return nil
}

func isMetaKey(key string) bool {
	for i, c := range []byte(key) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return key != ""
}

// MetaPrefix is what the variables of [MetaVariable] begin with.
const MetaPrefix = "BATUTA_META_"

// MetaVariable returns the environment variable in which commands find a key's value:
// BATUTA_META_ and the key in capitals, with '_' for '.' and '-'.
func MetaVariable(key string) string {
	return MetaPrefix + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(key))
}

// MetaDigest returns a short sum of the metadata in list, which is in the order of ids; 0 for
// none. Two members with different digests exchange their metadata.
func MetaDigest(list []Meta) uint32 {
	if len(list) == 0 {
		return 0
	}
	h := fnv.New32a()
	var b []byte
	for _, m := range list {
		b = append(append(b[:0], m.ID...), 0)
		b = binary.AppendUvarint(binary.AppendUvarint(b, m.Incarnation), m.Version)
		h.Write(append(appendPairs(b, m.Pairs), 0))
	}
	return max(h.Sum32(), 1)
}

// appendPairs appends the pairs in the order of their keys. Neither keys nor values contain a zero.
func appendPairs(b []byte, pairs map[string]string) []byte {
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		b = append(append(append(append(b, key...), 0), pairs[key]...), 0)
	}
	return b
}

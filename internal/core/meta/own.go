package meta

import (
	"maps"
	"strings"
)

// IsOwn reports whether a key belongs to batuta's packages, such as "batuta.ticks".
func IsOwn(key string) bool { return strings.HasPrefix(key, "batuta.") }

// Removes reports whether a pair removes its key: the key belongs to batuta's packages, and the
// value is empty.
func Removes(key, value string) bool { return value == "" && IsOwn(key) }

// OwnOf returns those pairs that belong to batuta's packages, without those that remove their key.
func OwnOf(pairs map[string]string) map[string]string {
	own := map[string]string{}
	for key, value := range pairs {
		if value != "" && IsOwn(key) {
			own[key] = value
		}
	}
	return own
}

// UsersOf returns the pairs that do not belong to batuta's packages.
func UsersOf(pairs map[string]string) map[string]string {
	users := maps.Clone(pairs)
	maps.DeleteFunc(users, func(key, _ string) bool { return IsOwn(key) })
	return users
}

// Package batuta elects a leader among processes, with no service to operate
// beside them.
package batuta

//go:build js

// Package nfc takes text as it is: a page composes what it gives to its simulator, and the
// tables for it would be 50 kB.
package nfc

// String returns s.
func String(s string) string { return s }

//go:build !js

// Package nfc writes text in Unicode's composed form, so that what looks the same is the same.
package nfc

import "golang.org/x/text/unicode/norm"

// String returns s in that form.
func String(s string) string { return norm.NFC.String(s) }

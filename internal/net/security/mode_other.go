//go:build !unix

package security

import "os"

// tooOpen cannot be derived from a mode on this system.
func tooOpen(os.FileInfo) bool { return false }

//go:build !linux

package datadir

import "os"

// SyncData returns once what was written into f survives a power cut.
func SyncData(f *os.File) error { return f.Sync() }

//go:build !linux

package statefile

import "os"

// dataSync returns once what was written into f survives a power cut.
func dataSync(f *os.File) error { return f.Sync() }

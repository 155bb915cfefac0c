// Package datadir does not compile on Windows, so that it is said when batuta is built
// and not when it fails: what a power cut leaves there of a file, nobody has tried,
// and what "batuta run" starts could not be ended with all that it has started.
package datadir

var _ = batuta_does_not_run_on_Windows_use_WSL

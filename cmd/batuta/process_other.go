//go:build !linux

package main

import (
	"syscall"
)

// childAttributes is empty here: a child of a parent that is killed outright
// stays behind; only Linux can tie the two together.
func childAttributes() *syscall.SysProcAttr { return nil }

func checkThreads() error { return nil }

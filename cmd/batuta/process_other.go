//go:build !linux

package main

import (
	"errors"
	"syscall"
	"time"
)

// childAttributes is empty here: a child of a parent that is killed outright
// stays behind; only Linux can tie the two together.
func childAttributes() *syscall.SysProcAttr { return nil }

func checkThreads() error { return nil }

func inRealTime(func()) error { return errors.New("only Linux has it") }

func sleep(d time.Duration) { time.Sleep(d) }

//go:build !linux

package run

import "golang.org/x/sys/unix"

const clockID = unix.CLOCK_MONOTONIC // stands still in suspension; the wall clock tells of that

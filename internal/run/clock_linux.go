package run

import "golang.org/x/sys/unix"

const clockID = unix.CLOCK_BOOTTIME

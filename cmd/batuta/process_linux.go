package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/batuta-dev/batuta/internal/command/cli"
)

// checkThreads refuses a start that would abort: Go ends a process that cannot start a thread.
func checkThreads() error {
	var limit unix.Rlimit
	if os.Geteuid() == 0 || unix.Getrlimit(unix.RLIMIT_NPROC, &limit) != nil || limit.Cur >= 32 {
		return nil
	}
	return cli.Exit(cli.Failed, fmt.Errorf("this user may start %d processes and threads, and an agent with its guard needs 32: raise the limit (ulimit -u)", limit.Cur))
}

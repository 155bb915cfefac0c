package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/hooks"
	runner "github.com/batuta-dev/batuta/internal/command/run"
)

// checkFlags are the flags about this member's health.
type checkFlags struct {
	line          string
	leadUnhealthy bool
}

func (f *checkFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.line, "check", "", "`COMMAND` to run every second, without a shell; while it fails or takes longer than that, this member does not lead")
	fs.BoolVar(&f.leadUnhealthy, "lead-unhealthy", false, "lead although the check fails, if there is no leader for 2·T and no healthy member is in reach")
}

// validate finds out before anything starts whether the check can run.
func (f *checkFlags) validate() error {
	argv, err := hooks.Command(f.line)
	if err != nil {
		return cli.Usagef("--check %q: %w", f.line, err)
	}
	if f.leadUnhealthy && len(argv) == 0 {
		return cli.Usagef("--lead-unhealthy: it goes with --check; leave it out, or add that")
	}
	return nil
}

// healthy is the check as the library wants it; nil when there is none.
func (f *checkFlags) healthy() func(context.Context) error {
	argv, _ := hooks.Words(f.line) // validate has seen it
	if len(argv) == 0 {
		return nil
	}
	return func(ctx context.Context) error { return runCheck(ctx, argv) }
}

// orphanTime is how long the output of a check that has ended is still read; what
// it left behind and holds that open is killed then.
const orphanTime = 100 * time.Millisecond

func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// runCheck runs argv in a process group of its own, which is killed when ctx ends.
func runCheck(ctx context.Context, argv []string) error {
	var said tail
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = childAttributes()
	cmd.Stderr = &said
	cmd.WaitDelay = orphanTime
	cmd.Cancel = func() error {
		if killGroup(cmd) == nil {
			return nil
		}
		return cmd.Process.Kill() // where it has no group of its own
	}
	err := runner.RunChild(cmd)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrWaitDelay):
		killGroup(cmd) // or every second would leave more of them
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("check %s: killed, it took too long", argv[0])
	case said.last() != "":
		return fmt.Errorf("check %s: %w: %s", argv[0], err, said.last())
	}
	return fmt.Errorf("check %s: %w", argv[0], err)
}

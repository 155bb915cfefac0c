package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/podlabel"
	"github.com/batuta-dev/batuta/internal/work/hooks"
	runner "github.com/batuta-dev/batuta/internal/work/run"
	"github.com/spf13/pflag"
)

// hookFlags are the agent's flags about hooks.
type hookFlags struct{ cli.LeadHooks }

// follow runs the hooks and labels pod, unless nil, until node ends; then what it returns is closed. OnLead reports that
// the leader serves if alone is set: then no command reports that it serves.
func (f *hookFlags) follow(node *batuta.Node, pod *podlabel.Pod, alone bool, log *slog.Logger) <-chan struct{} {
	done := make(chan struct{})
	config := f.Config(log)
	if alone {
		config.Ready = node.Ready
	}
	go func() {
		defer close(done)
		var labels sync.WaitGroup
		defer labels.Wait()
		if pod != nil {
			labels.Go(func() { pod.Follow(node) })
		}
		if config.Any() {
			hooks.Follow(node, config)
		}
	}()
	return done
}

// parting is how long hooks may take when the agent ends: a hook may be at work,
// and those of the end follow.
func (f *hookFlags) parting() time.Duration {
	if !f.Config(nil).Any() {
		return 0
	}
	return 3 * f.Timeout
}

// checkFlags are the flags about this member's health.
type checkFlags struct {
	line              string
	interval, timeout time.Duration
	rise, fall        int
	leadUnhealthy     bool
}

func (f *checkFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.line, "check", "", "`COMMAND` to run again and again, without a shell; while it fails or takes too long, this member does not lead")
	fs.DurationVar(&f.interval, "check-interval", time.Second, "`DURATION` between two runs of the check")
	fs.DurationVar(&f.timeout, "check-timeout", time.Second, "`DURATION` after which the check is killed, and has failed")
	fs.IntVar(&f.rise, "rise", 1, "`N` checks in a row that succeed make this member healthy")
	fs.IntVar(&f.fall, "fall", 1, "`N` checks in a row that fail make it unhealthy")
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
	for _, d := range []time.Duration{f.interval, f.timeout} {
		if d < batuta.MinTime || d > batuta.MaxTime {
			return cli.Usagef("--check-interval %v, --check-timeout %v: give %v to %v for each", f.interval, f.timeout, batuta.MinTime, batuta.MaxTime)
		}
	}
	if f.rise < 1 || f.fall < 1 {
		return cli.Usagef("--rise %d, --fall %d: give 1 or more checks in a row for each", f.rise, f.fall)
	}
	if len(argv) == 0 && (f.interval != time.Second || f.timeout != time.Second || f.rise != 1 || f.fall != 1) {
		return cli.Usagef("--check-interval, --check-timeout, --rise, --fall: they go with --check; leave them out, or add that")
	}
	return nil
}

// health is the check as the library wants it.
func (f *checkFlags) health() batuta.Health {
	argv, _ := hooks.Words(f.line) // validate has seen it
	if len(argv) == 0 {
		return batuta.Health{}
	}
	return batuta.Health{Check: func(ctx context.Context) error { return runCheck(ctx, argv) },
		Every: f.interval, Timeout: f.timeout, Rise: f.rise, Fall: f.fall}
}

// orphanTime is how long the output of a check that has ended is still read; what
// it left behind and holds that open is killed then.
const orphanTime = 100 * time.Millisecond

func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// runCheck runs argv in a process group of its own, which is killed when ctx ends.
func runCheck(ctx context.Context, argv []string) error {
	var said tail
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = hooks.ChildAttributes()
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

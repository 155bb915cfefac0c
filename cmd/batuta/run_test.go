package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Only a command of the user reports that it serves: with an agent, and an address that is held, --on-lead does.
func TestACommandOfTheUserReportsThatItServes(t *testing.T) {
	for what, tt := range map[string]struct {
		job  *job
		want bool
	}{
		"batuta agent":                {nil, false},
		"batuta agent with elections": {&job{}, false},
		"batuta run":                  {&job{argv: []string{"./worker"}}, true},
		"batuta vip":                  {&job{argv: []string{"batuta", "hold-address"}, clear: func() error { return nil }}, false},
	} {
		if got := tt.job.reports(); got != tt.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// signals are what a job has passed on.
type signals struct {
	runs
	sent []syscall.Signal
}

func (s *signals) Signal(sig syscall.Signal) { s.sent = append(s.sent, sig) }

// SIGHUP is for a command of the user, and for the member itself where that runs no such command.
func TestSIGHUPReloadsWhereNoCommandTakesIt(t *testing.T) {
	for what, tt := range map[string]struct {
		job    *job
		passed bool
	}{
		"batuta agent":      {nil, false},
		"batuta run":        {&job{argv: []string{"./worker"}}, true},
		"batuta run --jobs": {&job{file: &lineFile{}}, false},
		"batuta vip":        {&job{argv: []string{"batuta", "hold-address"}, clear: func() error { return nil }}, false},
	} {
		var to signals
		if tt.job != nil {
			tt.job.runs = &to
		}
		if got := tt.job.pass(syscall.SIGHUP); got != tt.passed || len(to.sent) > 0 != tt.passed {
			t.Errorf("%s: passed %v, sent %v", what, got, to.sent)
		}
	}
}

// The processes that "batuta vip" starts log as it does.
func TestTheProcessesOfAnAddressLogAsTheirMember(t *testing.T) {
	var member agentFlags
	fs := pflag.NewFlagSet("vip", pflag.ContinueOnError)
	member.register(fs)
	if err := fs.Parse([]string{"--log-level", "error", "--log-format", "json"}); err != nil {
		t.Fatal(err)
	}
	var h holding
	cmd := &cobra.Command{}
	h.register(cmd)
	if err := cmd.ParseFlags(member.output.Args()); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	c, err := vipConfig(cli.Env{Stderr: &log}, "eth0", &h.output, []string{"10.0.0.100/24"})
	if err != nil {
		t.Fatal(err)
	}
	c.Log.Warn("is dropped")
	c.Log.Error("is logged")
	if text := log.String(); strings.Contains(text, "dropped") || !strings.HasPrefix(text, "{") || !strings.Contains(text, "is logged") {
		t.Errorf("the log has: %s", text)
	}
}

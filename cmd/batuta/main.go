// Command batuta runs and asks members of a leader election; see "batuta help".
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/election"
)

// env is the world around a command, so that a test can give it another.
type env struct {
	stdout  io.Writer                   // events and answers
	stderr  io.Writer                   // logs, errors and progress
	lookup  func(string) (string, bool) // environment variables
	environ func() []string             // all of them; nil: none
	config  string                      // a file that commands which ask an agent read when there is no --config; "": none
	agent   string                      // where an agent is asked when nothing says where; "": nowhere
}

// What goes for an agent on this machine.
const (
	systemConfig = "/etc/batuta.yaml" // where a package puts its settings
	defaultHTTP  = "127.0.0.1:7500"   // where the first is asked to which nobody gives --http
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], env{os.Stdout, os.Stderr, os.LookupEnv, os.Environ, systemConfig, defaultHTTP}))
}

// run performs one command line and gives its exit code.
func run(ctx context.Context, args []string, e env) int {
	root := newRootCommand(e)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintf(e.stderr, "%s: %s\n", cmd.CommandPath(), oneLine(err))
	}()
	select {
	case <-said:
	case <-time.After(lastWords): // nobody reads it
	}
	if coded, ok := errors.AsType[*exitError](err); ok {
		return coded.code
	}
	return exitUsage // cobra's own: an unknown command or flag, a wrong argument
}

func newRootCommand(e env) *cobra.Command {
	root := &cobra.Command{
		Use:   "batuta",
		Short: "Elect one leader among processes, with no service beside them",
		Long: `batuta lets a set of processes agree on one leader: everyone knows who it is,
and what only a leader may do runs in one place.

Every flag can also stand in a YAML file (--config) and in the environment
(--t-max is BATUTA_T_MAX); the command line wins over the environment, and
that over the file.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 no leader or
not the leader.`,
		Example: `  batuta demo
  batuta agent --id 1 --listen 127.0.0.1:7401 --http 127.0.0.1:7501 \
    --member 2=127.0.0.1:7402 --member 3=127.0.0.1:7403
  batuta status --http 127.0.0.1:7501`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if e.environ != nil {
				warnOfVariables(cmd, e.environ(), e.stderr)
			}
			return applySources(cmd, e.lookup, e.config)
		},
	}
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.PersistentFlags().String("config", "", "YAML `file` with flags by name")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w%s; see '%s --help'", err, meantFlag(cmd, err), cmd.CommandPath())
	})
	root.AddCommand(subcommands(e)...)
	codeFailures(root)
	complete(root)
	return root
}

func subcommands(e env) []*cobra.Command {
	return []*cobra.Command{
		newAgentCommand(e),
		newRunCommand(e),
		newGuardCommand(),
		newVIPCommand(e),
		newHoldAddressCommand(e),
		newStatusCommand(e),
		newExplainCommand(e),
		newLeaderCommand(e),
		newMembersCommand(e),
		newWatchCommand(e),
		newResignCommand(e),
		newTransferCommand(e),
		newCampaignCommand(e),
		newElectionsCommand(e),
		newDrainCommand(e),
		newUndrainCommand(e),
		newTuneCommand(e),
		newDemoCommand(e),
		newBenchCommand(e),
		newSuperpeersCommand(e),
		newConfigCommand(e),
		newSecretCommand(e),
		newTLSCommand(e),
		newVersionCommand(e),
		newCompletionCommand(e),
		newManCommand(e),
		newSimCommand(e),
		newLabCommand(e),
	}
}

// Exit codes.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2 // wrong usage or configuration: only the user can mend it
	exitNoLeader = 3 // no leader is known, or this member is not it
)

// exitError is an error with the exit code it stands for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usagef makes an error that ends the command with exit code 2.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// codeFailures makes exit code 1 of every error of a command's own work that
// names no other code. What cobra itself refuses has none, and is wrong usage.
func codeFailures(cmd *cobra.Command) {
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := work(cmd, args)
			if _, coded := errors.AsType[*exitError](err); err == nil || coded {
				return err
			}
			return &exitError{exitFailed, err}
		}
	}
	for _, sub := range cmd.Commands() {
		codeFailures(sub)
	}
}

// oneLine is err on a single line, for a person and for grep.
func oneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return election.Shown(strings.Join(lines, "; "))
}

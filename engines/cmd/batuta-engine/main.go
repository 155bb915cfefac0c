// Command batuta-engine holds an election on etcd, Kubernetes or PostgreSQL as batuta does among its
// members: "batuta-engine run --etcd 127.0.0.1:2379 -- ./worker".
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/run"
)

// env is the world around a command, so that a test can give it another.
type env struct {
	stdout, stderr io.Writer
	lookup         func(string) (string, bool) // environment variables
}

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], env{os.Stdout, os.Stderr, os.LookupEnv}))
}

// Exit codes, those of batuta.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2 // wrong usage or configuration: only the user can mend it
	exitNoLeader = 3
)

// exitError is an error with the exit code it stands for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// execute performs one command line and gives its exit code.
func execute(ctx context.Context, args []string, e env) int {
	root := newRootCommand(e)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(e.stderr, "%s: %s\n", cmd.CommandPath(), election.Shown(strings.Join(strings.Fields(err.Error()), " ")))
	if coded, ok := errors.AsType[*exitError](err); ok {
		return coded.code
	}
	return exitUsage // cobra's own
}

func newRootCommand(e env) *cobra.Command {
	root := &cobra.Command{
		Use:   "batuta-engine",
		Short: "Elect one leader on etcd, Kubernetes or PostgreSQL",
		Long: `batuta-engine does what batuta does, where an engine runs already that can hold the
election: run keeps a command where the leader is, agent has HTTP, hooks and metrics, and
status and watch tell who leads. Candidates need not reach each other.

Every flag can also stand in a YAML file (--config) and in the environment (--lease is
BATUTA_LEASE); the command line wins over the environment, and that over the file.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 no leader.`,
		Example: `  batuta-engine run --etcd 127.0.0.1:2379 -- ./worker
  batuta-engine status --etcd 127.0.0.1:2379`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return applySources(cmd, e.lookup) },
	}
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.PersistentFlags().String("config", "", "YAML `file` with flags by name")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see '%s --help'", err, cmd.CommandPath())
	})
	root.AddCommand(newRunCommand(e), newAgentCommand(e), newStatusCommand(e), newLeaderCommand(e), newWatchCommand(e), newGuardCommand())
	codeFailures(root)
	return root
}

// codeFailures makes exit code 1 of every error of a command's own work that names no other.
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

// newGuardCommand is what "batuta-engine run" starts beside itself.
func newGuardCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "guard",
		Short:             "Guard the command of the \"batuta-engine run\" that started it",
		Hidden:            true,
		Args:              cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE:              func(*cobra.Command, []string) error { return run.Guard() },
	}
}

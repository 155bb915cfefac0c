// Package cli is what batuta's programs have in common on the command line: exit codes, and
// the flags, the log and the listener of a process that takes part in an election.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/datadir"
)

// Exit codes.
const (
	Done     = 0
	Failed   = 1
	Usage    = 2 // wrong usage or configuration: only the user can mend it
	NoLeader = 3 // no leader is known, or this member is not it
)

// Error is an error with the exit code it stands for.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Exit gives err the exit code it stands for; nil stays nil. What the machine refuses, such
// as one more open file, is no wrong configuration: it stands for [Failed], not [Usage].
func Exit(code int, err error) error {
	if err == nil {
		return nil
	}
	if code == Usage && datadir.Failed(err) {
		code = Failed
	}
	return &Error{code, err}
}

// Usagef makes an error that ends the command with exit code 2.
func Usagef(format string, args ...any) error { return Exit(Usage, fmt.Errorf(format, args...)) }

// CodeOf is the exit code of what a command gave. What names none is cobra's own refusal,
// of an unknown command or flag or of a wrong argument.
func CodeOf(err error) int {
	if err == nil {
		return Done
	}
	if coded, ok := errors.AsType[*Error](err); ok {
		return coded.Code
	}
	return Usage
}

// CodeFailures makes exit code 1 of every error of a command's own work that names no
// other, in cmd and all below it.
func CodeFailures(cmd *cobra.Command) {
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := work(cmd, args)
			if _, coded := errors.AsType[*Error](err); coded {
				return err
			}
			return Exit(Failed, err)
		}
	}
	for _, sub := range cmd.Commands() {
		CodeFailures(sub)
	}
}

// Execute performs one command line and gives its exit code. What is wrong with it goes to
// stderr on one line, which is waited for no longer than [LastWords].
func Execute(ctx context.Context, root *cobra.Command, args []string, stderr io.Writer) int {
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return Done
	}
	err = Argument(cmd, err)
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintf(stderr, "%s: %s\n", cmd.CommandPath(), OneLine(err))
	}()
	select {
	case <-said:
	case <-time.After(LastWords): // nobody reads it
	}
	return CodeOf(err)
}

// OneLine is err on a single line, for a person and for grep.
func OneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return election.Shown(strings.Join(lines, "; "))
}

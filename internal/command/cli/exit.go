// Package cli is what batuta's programs have in common on the command line: exit codes, and
// the flags, the log and the listener of a process that takes part in an election.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
)

// Exit codes. The same failure has the same code in every command.
const (
	Done     = 0
	Failed   = 1
	Usage    = 2 // wrong usage or configuration: only the user can mend it
	NoLeader = 3 // no leader is known, or the member asked is not the leader
	NoAgent  = 4 // no agent answers
	Unknown  = 5 // there is no such member, election or job
)

// Codes says what each exit code means, one per line.
const Codes = `  0  done
  1  failed
  2  wrong usage or configuration: one line says what, where and how to fix it
  3  no leader is known, or the member asked is not the leader
  4  no agent answers at the address asked
  5  no such member, election or job`

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

// Ended is the end of a command by the exit code of the program that it has run: nothing is printed.
func Ended(code int) error { return Exit(code, errEnded) }

var errEnded = errors.New("the command has ended")

// Usagef makes an error that ends the command with exit code 2.
func Usagef(format string, args ...any) error { return Exit(Usage, fmt.Errorf(format, args...)) }

// CodeOf is the exit code of what a command gave. What names none is cobra's own refusal,
// of an unknown command or flag or of a wrong argument.
func CodeOf(err error) int {
	if err == nil {
		return Done
	}
	return codeOf(err, Usage)
}

// codeOf is the exit code that an error stands for: its own, or that of an agent's answer;
// else otherwise.
func codeOf(err error, otherwise int) int {
	if coded, ok := errors.AsType[*Error](err); ok {
		return coded.Code
	}
	if _, ok := errors.AsType[*api.UnreachableError](err); ok {
		return NoAgent
	}
	if answer, ok := errors.AsType[*api.AnswerError](err); ok {
		switch answer.Code {
		case http.StatusServiceUnavailable, http.StatusConflict:
			return NoLeader
		case http.StatusNotFound:
			return Unknown
		}
	}
	return otherwise
}

// CodeFailures gives every error of a command's own work its exit code, in cmd and all
// below it: 1 if it stands for no other.
func CodeFailures(cmd *cobra.Command) {
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := work(cmd, args)
			if err == nil {
				return nil
			}
			return Exit(codeOf(err, Failed), err)
		}
	}
	for _, sub := range cmd.Commands() {
		CodeFailures(sub)
	}
}

// RefuseTopics has the help command below root refuse what there is no help about: cobra's
// prints other help, and ends well.
func RefuseTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil || help.Run == nil {
		return // root has no commands
	}
	help.Use, help.Short, help.Long = "help [COMMAND]", "Show help about a command or topic", "Show help about a command or topic."
	help.Example = "  " + root.Name() + " help run"
	show := help.Run
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		found, rest, err := root.Find(args)
		if err != nil {
			found, rest = root, args
		}
		if len(rest) > 0 {
			return UnknownCommand(found, rest[0])
		}
		show(cmd, args)
		return nil
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
	if errors.Is(err, errEnded) {
		return CodeOf(err)
	}
	err = Argument(cmd, err)
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintf(stderr, "%s: %s\n", typed(cmd, args), OneLine(err))
	}()
	select {
	case <-said:
	case <-time.After(LastWords): // nobody reads it
	}
	return CodeOf(err)
}

// typed is the path of cmd with the aliases that the command line has.
func typed(cmd *cobra.Command, args []string) string {
	path := ""
	for ; cmd != nil; cmd = cmd.Parent() {
		name := cmd.Name()
		for _, alias := range cmd.Aliases {
			if slices.Contains(args, alias) && !slices.Contains(args, name) {
				name = alias
			}
		}
		path = name + " " + path
	}
	return strings.TrimSuffix(path, " ")
}

// OneLine is err on a single line, for a person and for grep.
func OneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return election.Shown(Flags(strings.Join(lines, "; ")))
}

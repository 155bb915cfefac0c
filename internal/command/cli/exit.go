// Package cli is the common part of the command lines of batuta's programs: exit codes, and the
// flags, the log and the listener of a process that takes part in an election.
package cli

import (
	"context"
	"encoding/json"
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
	Usage    = 2 // wrong usage or configuration: only the user can fix it
	NoLeader = 3 // no leader is known, or the member asked is not the leader
	NoAgent  = 4 // no agent answers
	Unknown  = 5 // there is no such member, election or job
)

// Codes explains the exit codes, a line each.
const Codes = `  0  done
  1  failed
  2  wrong usage or configuration: one line says what, where and how to fix it
  3  no leader is known, or the member asked is not the leader
  4  no agent answers at the address asked
  5  no such member, election or job`

// Error is an error with its exit code.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Exit gives err an exit code; nil stays nil. An error of the machine, such as too many open files,
// is no wrong configuration: its code is [Failed], not [Usage].
func Exit(code int, err error) error {
	if err == nil {
		return nil
	}
	if code == Usage && datadir.Failed(err) {
		code = Failed
	}
	return &Error{code, err}
}

// Ended ends a command with the exit code of the program that it ran: nothing is printed.
func Ended(code int) error { return Exit(code, errEnded) }

var errEnded = errors.New("the command has ended")

// Usagef returns an error that ends the command with exit code 2.
func Usagef(format string, args ...any) error { return Exit(Usage, fmt.Errorf(format, args...)) }

// CodeOf returns the exit code of a command's error. An error without a code is cobra's own, about
// an unknown command or flag or a wrong argument.
func CodeOf(err error) int {
	if err == nil {
		return Done
	}
	return codeOf(err, Usage)
}

// codeOf returns the exit code of an error: its own, or that of an agent's answer; otherwise
// otherwise.
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

// CodeFailures gives every error of a command's own work an exit code, in cmd and all below it: 1
// if it has none.
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

// RefuseTopics makes the help command below root refuse an unknown topic: cobra's prints general
// help, and succeeds.
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

// Execute runs a command line and returns its exit code. An error is printed to stderr as a single
// line, as JSON with --json; it waits for that at most [LastWords].
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
		line := []byte(typed(cmd, args) + ": " + OneLine(err))
		if inJSON(cmd, args) {
			line, _ = json.Marshal(map[string]any{"error": string(line), "code": CodeOf(err)})
		}
		stderr.Write(append(line, '\n'))
	}()
	select {
	case <-said:
	case <-time.After(LastWords): // stderr is not being read
	}
	return CodeOf(err)
}

// inJSON reports whether the user wants answers as JSON, on a command line that may be wrong.
func inJSON(cmd *cobra.Command, args []string) bool {
	if n := slices.Index(args, "--"); n >= 0 {
		args = args[:n] // what follows is of another command
	}
	f := cmd.Flags().Lookup("json")
	asked := func(arg string) bool { return arg == "--json" || arg == "--output=json" || arg == "-ojson" }
	return f != nil && (f.Value.String() == "true" || slices.ContainsFunc(args, asked))
}

// typed returns the path of cmd with the aliases on the command line.
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

// OneLine returns the text of err as a single line, for a user and for grep.
func OneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return election.Shown(Flags(strings.Join(lines, "; ")))
}

// Package cli is the common part of the command lines of batuta's programs: exit codes, and the
// flags, the log and the listener of a process that takes part in an election.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	boundTimes(root)
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
		text := OneLine(err)
		line := []byte(typed(cmd, args) + ": " + text + origins(cmd, text))
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

// This file adds what to do to errors of the system, cobra or a parser.

// Unread adds what to do to the error of a file that the user named and that cannot be read.
func Unread(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; create it, or correct its name", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; let this user (%d) read it", err, os.Geteuid())
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w; name a file in it", err)
	}
	return err
}

// values describes the values of flags that pflag parses by itself, by their types.
var values = map[string]string{
	"bool":     "give true or false",
	"duration": "give a time with its unit, such as 150ms",
	"float64":  "give a number, such as 0.01",
	"int":      "give a whole number",
	"int64":    "give a whole number",
	"uint":     "give a whole number, 0 or more",
	"uint64":   "give a whole number, 0 or more",
}

// MaxTime is the longest time that a flag may have: sums and small multiples of times must not
// overflow, which they do after 292 years.
const MaxTime = 10 * 365 * 24 * time.Hour

var errTooLong = fmt.Errorf("too long: give at most %.0fh", MaxTime.Hours())

// boundTimes makes all flags of cmd, and of the commands below it, refuse a time above [MaxTime].
func boundTimes(cmd *cobra.Command) {
	bound := func(f *pflag.Flag) {
		if _, done := f.Value.(boundedTime); f.Value.Type() != "duration" || done {
			return
		}
		f.Value = boundedTime{f.Value}
		if f.DefValue == "0s" {
			f.DefValue = "0" // pflag's help leaves it out
		}
	}
	cmd.PersistentFlags().VisitAll(bound)
	cmd.Flags().VisitAll(bound)
	for _, sub := range cmd.Commands() {
		boundTimes(sub)
	}
}

// boundedTime is a flag's time of at most [MaxTime].
type boundedTime struct{ pflag.Value }

func (b boundedTime) Set(text string) error {
	if d, err := time.ParseDuration(text); err == nil && d.Abs() > MaxTime {
		return errTooLong
	}
	return b.Value.Set(text)
}

var number = regexp.MustCompile(`[0-9]+`)

// badValue rewords a parser's error for the user.
func badValue(v pflag.Value, given string, err error) error {
	want, ours := values[v.Type()]
	_, notTime := time.ParseDuration(number.ReplaceAllString(given, "1"))
	switch {
	case !ours:
		return err
	case v.Type() == "duration" && notTime == nil: // but the number is too high
		return errTooLong
	case errors.Is(err, strconv.ErrRange):
		return errors.New("out of range: " + want + " nearer to 0")
	}
	return errors.New(want)
}

// FlagError rewords an error about the flags of a command line.
func FlagError(cmd *cobra.Command, err error) error {
	var what string
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		what = fmt.Sprintf("--%s %q: %v", bad.GetFlag().Name, bad.GetValue(), badValue(bad.GetFlag().Value, bad.GetValue(), bad.Unwrap()))
	} else if bare, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		kind, _ := pflag.UnquoteUsage(bare.GetFlag())
		what = fmt.Sprintf("--%s needs a value: write --%[1]s %s", bare.GetFlag().Name, strings.ToUpper(kind))
	} else if no, ok := errors.AsType[*pflag.NotExistError](err); ok {
		what = unknownFlag(cmd, no)
	} else if odd, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		what = fmt.Sprintf("%q is no flag: write --NAME VALUE", odd.GetSpecifiedFlag())
	} else {
		what = err.Error()
	}
	return Usagef("%s; see '%s --help'", what, cmd.CommandPath())
}

// Exactly requires a single argument that is not empty, of that form.
func Exactly(form, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return Usagef("give one %s, as in: %s %s", form, cmd.CommandPath(), example)
		}
		return nil
	}
}

// Several requires at least a single argument, each of that form.
func Several(form, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || slices.Contains(args, "") {
			return Usagef("give a %s, or several, as in: %s %s", form, cmd.CommandPath(), example)
		}
		return nil
	}
}

// OneOf requires a single argument from values.
func OneOf(values ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) != 1:
			return Usagef("give one of %s", strings.Join(values, ", "))
		case !slices.Contains(values, args[0]):
			return Usagef("%q: give one of %s", args[0], strings.Join(values, ", "))
		}
		return nil
	}
}

// Argument rewords cobra's error about an argument for the command that got it.
func Argument(cmd *cobra.Command, err error) error {
	if _, coded := errors.AsType[*Error](err); coded {
		return err
	}
	said, _, _ := strings.Cut(err.Error(), "\n")
	var what string
	switch _, scanErr := fmt.Sscanf(said, "unknown command %q", &what); {
	case scanErr == nil && !cmd.HasSubCommands():
		return Usagef("takes no argument, and got %q; see '%s --help'", what, cmd.CommandPath())
	case scanErr == nil:
		return UnknownCommand(cmd, what)
	}
	return Usagef("%s; see '%s --help'", said, cmd.CommandPath())
}

// UnknownCommand returns the error that cmd has no subcommand of that name.
func UnknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); name != "" && len(near) > 0 {
		return Usagef("unknown command %q; did you mean %s?", name, strings.Join(near, " or "))
	}
	return Usagef("unknown command %q; see '%s --help'", name, cmd.CommandPath())
}

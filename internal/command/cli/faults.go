package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// This file adds what to do to errors of the system, cobra or a parser.

// Unread adds what to do to the error of a file that the user named and that cannot be read.
func Unread(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; create it, or correct its name", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; let this user (%d) read it", err, os.Geteuid())
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

// badValue rewords a parser's error for the user.
func badValue(v pflag.Value, err error) error {
	want, ours := values[v.Type()]
	switch {
	case !ours:
		return err
	case errors.Is(err, strconv.ErrRange):
		return errors.New("out of range: " + want + " nearer to 0")
	}
	return errors.New(want)
}

// FlagError rewords an error about the flags of a command line.
func FlagError(cmd *cobra.Command, err error) error {
	var what string
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		what = fmt.Sprintf("--%s %q: %v", bad.GetFlag().Name, bad.GetValue(), badValue(bad.GetFlag().Value, bad.Unwrap()))
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

// Exactly requires a single argument, of that form.
func Exactly(form, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Usagef("give one %s, as in: %s %s", form, cmd.CommandPath(), example)
		}
		return nil
	}
}

// Several requires at least a single argument, each of that form.
func Several(form, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
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

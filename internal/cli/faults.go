package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// This file says what to do about a fault that the system, cobra or a parser words.

// Unread adds to the error of a file that the user named, and that cannot be read, what to do.
func Unread(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; make it, or correct its name", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; let this user (%d) read it", err, os.Geteuid())
	}
	return err
}

// values says what the flags take that pflag parses by itself, by their types.
var values = map[string]string{
	"bool":     "give true or false",
	"duration": "give a time with its unit, such as 150ms",
	"float64":  "give a number, such as 0.01",
	"int":      "give a whole number",
	"int64":    "give a whole number",
	"uint":     "give a whole number, 0 or more",
	"uint64":   "give a whole number, 0 or more",
}

// badValue is a parser's fault in the user's words.
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

// FlagError is what is wrong with the flags of a command line.
func FlagError(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := bad.GetFlag()
		err = fmt.Errorf("invalid argument %q for \"--%s\" flag: %w", bad.GetValue(), f.Name, badValue(f.Value, bad.Unwrap()))
	}
	return Usagef("%w%s; see '%s --help'", err, meantFlag(cmd, err), cmd.CommandPath())
}

// Argument is cobra's fault of an argument, worded for the command that got it.
func Argument(cmd *cobra.Command, err error) error {
	if _, coded := errors.AsType[*Error](err); coded {
		return err
	}
	said, hint, _ := strings.Cut(err.Error(), "\n")
	switch what, _, found := strings.Cut(strings.TrimPrefix(said, "unknown command "), " for "); {
	case found && strings.HasPrefix(said, "unknown command ") && !cmd.HasSubCommands():
		return Usagef("takes no argument, and got %s; see '%s --help'", what, cmd.CommandPath())
	case hint != "": // "Did you mean this?", and names
		names := strings.Fields(strings.TrimPrefix(strings.TrimSpace(hint), "Did you mean this?"))
		return Usagef("%s; did you mean %s?", said, strings.Join(names, " or "))
	case len(cmd.ValidArgs) > 0:
		return Usagef("%s; give one of %s", said, strings.Join(cmd.ValidArgs, ", "))
	}
	return Usagef("%s; see '%s --help'", said, cmd.CommandPath())
}

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/hooks"
)

// This file suggests corrections for names with small mistakes.

// variable returns the environment variable of a flag.
func variable(flag string) string {
	return "BATUTA_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// WarnOfVariables warns of variables that match no flag but almost match a flag: they would be
// ignored silently. It considers the flags of all commands. If two commands have a flag in singular
// and plural, it suggests that of cmd.
func WarnOfVariables(cmd *cobra.Command, environ []string, out io.Writer) {
	names, own := flagNames(cmd), namesIn(cmd.Flags())
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		rest, ours := strings.CutPrefix(name, "BATUTA_")
		if !ours || value == "" || slices.Contains(hooks.Variables, name) || strings.HasPrefix(name, election.MetaPrefix) {
			continue
		}
		flag := strings.ToLower(strings.ReplaceAll(rest, "_", "-"))
		near := nearest(flag, names)
		if !slices.Contains(own, flag) {
			alike := func(name string) bool { return strings.TrimSuffix(name, "s") == strings.TrimSuffix(flag, "s") }
			if i := slices.IndexFunc(own, alike); i >= 0 {
				near = own[i]
			}
		}
		if near != "" && near != flag {
			fmt.Fprintf(out, "%s: warning: %s is not read: did you mean %s?\n", cmd.Root().Name(), name, variable(near))
		}
	}
}

// flagNames returns the names of the flags of all commands, including earlier names.
func flagNames(cmd *cobra.Command) (names []string) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		names = append(names, namesIn(c.Flags())...)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(cmd.Root())
	cmd.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	slices.Sort(names)
	return slices.Compact(names)
}

// namesIn returns the names of a set of flags, including earlier names.
func namesIn(set *pflag.FlagSet) (names []string) {
	set.VisitAll(func(f *pflag.Flag) { names = append(append(names, f.Name), f.Annotations[aliases]...) })
	return names
}

// didYouMean returns a suggestion to append to an error, or nothing.
func didYouMean(what string, names []string) string {
	if near := nearest(what, names); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// unknownFlag describes that cmd has no such flag, and suggests a similar flag.
func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) string {
	if short := err.GetSpecifiedShortnames(); short != "" {
		return fmt.Sprintf("unknown flag -%s", short)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	name := err.GetSpecifiedName()
	if near := nearest(name, names); near != "" {
		return fmt.Sprintf("unknown flag --%s; did you mean --%s?", name, near)
	}
	return "unknown flag --" + name
}

// nearest returns the name that differs least from what, if it differs by at most one letter of
// three to six, two of more.
func nearest(what string, names []string) (near string) {
	least := min(2, (len(what)+1)/4) + 1
	for _, name := range names {
		if d := distance(what, name); d < least {
			near, least = name, d
		}
	}
	return near
}

// distance returns how many letters have to be changed, added or removed (Levenshtein) to turn a
// into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, corner+1)
		}
	}
	return row[len(b)]
}

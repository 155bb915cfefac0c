package cli

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/work/hooks"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Section is a part of a help text: a title, and names of commands or of flags, in order. A name
// that a command does not have is skipped.
type Section struct {
	Title string
	Names []string
}

// Help is the common part of the help texts of a program's commands.
type Help struct {
	Commands []Section // of the root
	Flags    []Section // of a command with more than [wall] flags; without --help-all only the first is explained
	Config   string    // a flag; commands that have it show --config
	System   string    // which file that is by default, in commands that have a default
	Foot     string    // last lines of the root's help
}

// More flags than wall are shown in sections; lines of flags end before column width.
const (
	wall  = 20
	width = 100
)

// Install makes root and all below it print h.
func (h Help) Install(root *cobra.Command) {
	offerAll(root)
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		var b strings.Builder
		useLines(&b, cmd)
		if !cmd.HasParent() {
			h.commands(&b, cmd)
			fmt.Fprintf(&b, "\nExamples:\n%s\n\n%s\n", cmd.Example, h.Foot)
		} else {
			subcommands(&b, cmd)
			if cmd.HasExample() {
				fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
			}
			h.flags(&b, cmd)
		}
		_, err := io.WriteString(cmd.OutOrStderr(), b.String())
		return err
	})
}

// offerAll adds --help-all to each command with many flags.
func offerAll(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		offerAll(sub)
	}
	lines := 0
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			lines += 1 + strings.Count(f.Usage, "\n")
		}
	})
	if lines < wall {
		return
	}
	cmd.InitDefaultHelpFlag()
	cmd.Flags().BoolFunc("help-all", "help that explains each flag", func(string) error { return cmd.Flags().Set("help", "true") })
	ByHand(cmd.Flags(), "help-all")
}

// isGroup is the annotation of a command without work of its own, only subcommands.
const isGroup = "batuta_group"

// Group makes cmd a command that prints its help, with these subcommands.
func Group(cmd *cobra.Command, of ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.Annotations = map[string]string{isGroup: "yes"}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(of...)
	return cmd
}

// Earlier makes cmd available under an earlier name, which no help shows.
func Earlier(name string, cmd *cobra.Command) *cobra.Command {
	cmd.Use, cmd.Hidden = name, true
	return cmd
}

func useLines(b *strings.Builder, cmd *cobra.Command) {
	before := "Usage: "
	if cmd.Runnable() && cmd.Annotations[isGroup] == "" {
		fmt.Fprintf(b, "%s%s\n", before, strings.Replace(cmd.UseLine(), "[flags]", "[FLAGS]", 1))
		before = "       "
	}
	switch {
	case !cmd.HasParent():
		fmt.Fprintf(b, "%s%s COMMAND [FLAGS]\n", before, cmd.CommandPath())
	case cmd.HasAvailableSubCommands():
		fmt.Fprintf(b, "%s%s COMMAND\n", before, cmd.CommandPath())
	}
}

// commands lists the commands of the root by section.
func (h Help) commands(b *strings.Builder, root *cobra.Command) {
	for _, s := range h.Commands {
		title := "\n" + s.Title + "\n"
		for _, name := range s.Names {
			for _, c := range root.Commands() {
				if c.Name() == name && (c.IsAvailableCommand() || name == "help") {
					fmt.Fprintf(b, "%s  %-12s %s\n", title, name, c.Short)
					title = ""
				}
			}
		}
	}
}

func subcommands(b *strings.Builder, cmd *cobra.Command) {
	title := "\nCommands:\n"
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(b, "%s  %-12s %s\n", title, c.Name(), c.Short)
			title = ""
		}
	}
}

// flags lists the flags of cmd, by section if there are many.
func (h Help) flags(b *strings.Builder, cmd *cobra.Command) {
	if cmd.Annotations[isGroup] != "" {
		return
	}
	left := map[string]*pflag.Flag{}
	var names []string
	take := func(f *pflag.Flag) {
		if !f.Hidden {
			left[f.Name] = f
			names = append(names, f.Name)
		}
	}
	cmd.LocalFlags().VisitAll(take)
	if config := cmd.InheritedFlags().Lookup("config"); config != nil && left[h.Config] != nil {
		if own := *config; readsSystem(cmd) {
			own.Usage += h.System
			config = &own
		}
		take(config)
	}
	slices.Sort(names)
	sections, rest, explained := []Section(nil), "Flags", true
	if len(names) > wall {
		sections, rest, explained = h.Flags, "Other", cmd.Flags().Changed("help-all")
	}
	for i, s := range append(slices.Clone(sections), Section{rest, names}) {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		set.SortFlags = false
		for _, name := range s.Names {
			if f := left[name]; f != nil {
				set.AddFlag(f)
				delete(left, name)
			}
		}
		switch {
		case !set.HasFlags():
		case explained || i == 0:
			fmt.Fprintf(b, "\n%s:\n%s", s.Title, set.FlagUsagesWrapped(width))
			if !explained {
				fmt.Fprintf(b, "\nMore flags, which '%s --help-all' explains:\n", cmd.CommandPath())
			}
		default:
			listed(b, s.Title, set)
		}
	}
}

// listed writes only the names of the flags of a section.
func listed(b *strings.Builder, title string, set *pflag.FlagSet) {
	const indent = 24
	line := fmt.Sprintf("  %-*s", indent-2, title)
	set.VisitAll(func(f *pflag.Flag) {
		if len(line)+len(f.Name)+3 > width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = strings.Repeat(" ", indent)
		}
		line += "--" + f.Name + " "
	})
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// This file suggests corrections for names with small mistakes.

// variable returns the environment variable of a flag.
func variable(flag string) string {
	return "BATUTA_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// WarnOfVariables warns of variables that match no flag but almost match a flag: they would be
// ignored silently. It considers the flags of all commands. If two commands have a flag in singular
// and plural, or both resemble the variable, it suggests that of cmd.
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
		if ownNear := nearest(flag, own); near != flag && ownNear != "" {
			near = ownNear
		}
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

// This file names flags in the texts of the library, which has fields of a Config.

func init() { api.Worded = Flags }

var fieldFlags = strings.NewReplacer(
	"Config.Advertise to HOST:PORT", "--advertise HOST:PORT", "Config.Advertise", "--advertise",
	"Config.Bootstrap", "--bootstrap", "Config.Capacity", "--capacity", "Config.Cluster to ", "--cluster ", "Config.Expect", "--expect", "Config.Fraction", "--fraction",
	"Config.ID to ", "--id ", "Config.Join", "--join", "Config.Peers", "--member", "Config.Round", "--round",
	"Config.TMax", "--t-max", "Config.TProcess", "--t-process", "quorum.Drift", "--clock-drift",
	"a higher priority, or run every member with preempt=false", "a higher priority (batuta members add ID=HOST:PORT --priority N), or run every member with --no-preempt", "Config.Listen", "--listen", "Config.MinMembers", "--min-members", "Config.ReapAfter", "--reap-after", "CertFile, KeyFile and CAFile", "--tls-cert, --tls-key and --tls-ca", "Config.Observer and Config.Witness", "--observer", "Config.Observer", "--observer", "Config.DataDir", "--data-dir")

// Flags is text with the flag for each field that it names.
func Flags(text string) string { return fieldFlags.Replace(text) }

// flagsIn does that for what is logged.
func flagsIn(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(Flags(v))
	case error:
		a.Value = slog.StringValue(Flags(v.Error()))
	}
	return a
}

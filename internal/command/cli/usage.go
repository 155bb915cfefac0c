package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

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
	if strings.Count(cmd.LocalFlags().FlagUsages(), "\n") < wall {
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

package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/command/cli"
)

// everyCommand calls visit with each command of the tree, hidden ones too.
func everyCommand(visit func(*cobra.Command)) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		visit(cmd)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRootCommand(cli.Env{Stdout: io.Discard, Stderr: io.Discard}))
}

// placeholders are the kinds of values that flags have, the same in every command.
var placeholders = []string{"ID", "HOST:PORT", "ID=HOST:PORT", "DURATION", "N", "FILE", "DIR", "COMMAND", "NAME", "POLICY", "MODE", "FAULT",
	"KEY", "KEY=VALUE", "LEVEL", "LIST", "CRON", "URI", "TEXT", "FROM:TO"}

func TestThePlaceholdersOfFlagsAreOneVocabulary(t *testing.T) {
	everyCommand(func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if kind, _ := pflag.UnquoteUsage(f); kind != "" && !slices.Contains(placeholders, kind) {
				t.Errorf("%s --%s: the placeholder %q is none of %q", cmd.CommandPath(), f.Name, kind, placeholders)
			}
		})
	})
}

// A help text fits a terminal of 100 columns. Each of many flags has a section, and --help names each.
func TestHelpIsNarrow(t *testing.T) {
	everyCommand(func(cmd *cobra.Command) {
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		if short := out.String(); cmd.Flags().Lookup("help-all") != nil {
			if err := cmd.Flags().Set("help-all", "true"); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Help(); err != nil {
				t.Fatal(err)
			}
			if all := strings.TrimPrefix(out.String(), short); len(short) >= len(all) {
				t.Errorf("%s --help has %d bytes, and --help-all %d", cmd.CommandPath(), len(short), len(all))
			}
			cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && !strings.Contains(short+" ", "--"+f.Name+" ") && !strings.Contains(short, "--"+f.Name+"\n") {
					t.Errorf("%s --help does not name --%s", cmd.CommandPath(), f.Name)
				}
			})
		}
		for line := range strings.Lines(out.String()) {
			if columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns > 100 {
				t.Errorf("%s --help: a line of %d columns: %s", cmd.CommandPath(), columns, line)
			}
		}
		if _, other, more := strings.Cut(out.String(), "\nOther:\n"); more && !cmd.Hidden {
			t.Errorf("%s --help: flags are in no section of helpTexts: %s", cmd.CommandPath(), other)
		}
	})
}

// The first screen has every command, in a section.
func TestEveryCommandIsOnTheFirstScreen(t *testing.T) {
	var out bytes.Buffer
	root := newRootCommand(cli.Env{Stdout: &out, Stderr: &out})
	if err := root.Help(); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range root.Commands() {
		if line := fmt.Sprintf("\n  %-12s %s\n", cmd.Name(), cmd.Short); cmd.IsAvailableCommand() && !strings.Contains(out.String(), line) {
			t.Errorf("%s is in no section of helpTexts", cmd.Name())
		}
	}
}

// The sections name nothing that no command has.
func TestTheSectionsOfHelpNameWhatExists(t *testing.T) {
	exist := map[string]bool{"help": true}
	everyCommand(func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { exist["--"+f.Name] = true })
		if cmd.HasParent() && !cmd.Parent().HasParent() {
			exist[cmd.Name()] = true
		}
	})
	for _, s := range helpTexts.Commands {
		for _, name := range s.Names {
			if !exist[name] {
				t.Errorf("%s: there is no command %q", s.Title, name)
			}
		}
	}
	for _, s := range helpTexts.Flags {
		for _, name := range s.Names {
			if !exist["--"+name] && name != "help" {
				t.Errorf("%s: there is no flag --%s", s.Title, name)
			}
		}
	}
}

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pflag counts the bytes of a placeholder where it aligns the texts of flags.
func TestTheTextsOfFlagsAreAligned(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if kind, _ := pflag.UnquoteUsage(f); strings.ContainsFunc(kind, func(r rune) bool { return r > unicode.MaxASCII }) {
				t.Errorf("%s --%s: the placeholder %q is not ASCII", cmd.CommandPath(), f.Name, kind)
			}
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(env{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}))
}

// The first screen has every command, in a section.
func TestEveryCommandIsOnTheFirstScreen(t *testing.T) {
	var out bytes.Buffer
	root := newRootCommand(env{stdout: &out, stderr: &out})
	if err := root.Help(); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range root.Commands() {
		if line := fmt.Sprintf("\n  %-12s %s\n", cmd.Name(), cmd.Short); cmd.IsAvailableCommand() && !strings.Contains(out.String(), line) {
			t.Errorf("%s is in no section of helpTexts", cmd.Name())
		}
	}
}

package main

import (
	"bytes"
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

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/batuta-dev/batuta/internal/command/cli"
)

// newManCommand writes the man pages of the tree it stands in; packagers run it.
func newManCommand(e cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the man pages into a directory",
		Example: "  mkdir -p man1 && batuta man man1",
		Hidden:  true,
		Args:    cli.Exactly("DIRECTORY", "man1"),
		RunE: func(cmd *cobra.Command, args []string) error {
			header := &doc.GenManHeader{Section: "1", Source: "batuta " + version(), Manual: "batuta"}
			root := cmd.Root()
			root.DisableAutoGenTag = true // the date would make each run differ
			root.Long += "\n\n" + strings.ReplaceAll(helpTexts.Foot, "\n", "\n\n") + "\n\nExit codes:\n" + strings.ReplaceAll("\n"+cli.Codes, "\n", "\n    ")
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("man pages: %w", err)
			}
			return nil
		},
	}
}

func newCompletionCommand(e cli.Env) *cobra.Command {
	shells := map[string]func(*cobra.Command, io.Writer) error{
		"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
		"zsh":        (*cobra.Command).GenZshCompletion,
	}
	return &cobra.Command{
		Use:   "completion bash|fish|powershell|zsh",
		Short: "Print a completion script for a shell",
		Example: `  source <(batuta completion bash)
  batuta completion fish > ~/.config/fish/completions/batuta.fish`,
		Args:      cli.OneOf(slices.Sorted(maps.Keys(shells))...),
		ValidArgs: slices.Sorted(maps.Keys(shells)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return shells[args[0]](cmd.Root(), e.Stdout)
		},
	}
}

// Command batuta runs and asks members of a leader election; see "batuta help".
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	_ "time/tzdata" // CRON_TZ names zones on machines and in images that have none

	"github.com/batuta-dev/batuta/cmd/batuta/internal/simulate"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/ask"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/initial"
	"github.com/batuta-dev/batuta/internal/command/recovery"
	"github.com/batuta-dev/batuta/quorum"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// system is the world that a process finds.
func system() cli.Env {
	e := cli.Env{Stdout: os.Stdout, Stderr: os.Stderr, Lookup: os.LookupEnv, Environ: os.Environ, Config: cli.SystemConfig, Agent: cli.DefaultHTTP}
	if cli.IsTerminal(os.Stdin) && cli.IsTerminal(os.Stderr) {
		e.Confirm = func(question string) bool { return cli.Confirmed(os.Stdin, os.Stderr, question) }
	}
	return e
}

func main() {
	os.Exit(run(context.Background(), os.Args[1:], system()))
}

// run executes a command line and returns its exit code.
func run(ctx context.Context, args []string, e cli.Env) int {
	return cli.Execute(ctx, newRootCommand(e), args, e.Stderr)
}

func newRootCommand(e cli.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "batuta",
		Short: "Elect one leader among processes, with no server to run",
		Long:  "batuta elects one leader among processes on several machines, with no server to run.",
		Example: `  batuta demo
  batuta agent --id 1 --listen 10.0.0.1:7400 --secret-file cluster.key \
    --member 2=10.0.0.2:7400 --member 3=10.0.0.3:7400
  batuta run --config /etc/batuta.yaml -- ./worker`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if e.Environ != nil {
				cli.WarnOfVariables(cmd, e.Environ(), e.Stderr)
			}
			return applySources(cmd, e.Lookup, e.Config)
		},
	}
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	root.PersistentFlags().String("config", "", "YAML `FILE` with flags by name")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(cli.FlagError)
	root.Version = version()
	root.SetVersionTemplate(versionLine())
	root.AddCommand(subcommands(e)...)
	cli.RefuseTopics(root)
	helpTexts.Install(root)
	cli.CodeFailures(root)
	complete(root)
	return root
}

// helpTexts are those that are about all commands.
var helpTexts = cli.Help{
	Commands: []cli.Section{
		{Title: "Try it", Names: []string{"demo", "lab"}},
		{Title: "Take part", Names: []string{"agent", "run", "lock", "vip", "witness"}},
		{Title: "Ask", Names: []string{"status", "leader", "members", "elections", "jobs", "watch", "explain"}},
		{Title: "Act", Names: []string{"resign", "transfer", "campaign", "drain", "undrain", "pause", "resume"}},
		{Title: "Set up", Names: []string{"init", "check", "config", "secret", "tls", "tune", "recover"}},
		{Title: "Measure", Names: []string{"bench", "sim", "superpeer"}},
		{Title: "More", Names: []string{"help", "completion", "version"}},
	},
	Flags: []cli.Section{
		{Title: "Flags", Names: []string{"config", "cluster", "id", "listen", "member", "join", "data-dir", "algorithm", "secret-file", "http",
			"dev", "fraction", "capacity"}},
		{Title: "Identity and members", Names: []string{"advertise", "priority", "bootstrap", "expect", "min-members", "await-ready", "observer", "leave", "reap-after",
			"meta", "service"}},
		{Title: "Election", Names: []string{"election", "weight", "prefer", "seats", "preempt", "no-preempt", "probe", "takeover", "clock-drift",
			"method", "membership"}},
		{Title: "Timing", Names: []string{"profile", "heartbeat", "t-max", "t-process", "round"}},
		{Title: "Work", Names: []string{"restart", "grace", "try", "timeout", "schedule", "missed", "jobs", "finish", "elections-file", "check",
			"check-interval", "check-timeout", "rise", "fall", "lead-unhealthy", "on-lead", "on-lose", "on-change", "on-super", "on-client", "hook-timeout", "pod-label"}},
		{Title: "Security", Names: []string{"insecure", "tls-cert", "tls-key", "tls-ca", "tls-id-template", "allow-plain"}},
		{Title: "HTTP API", Names: []string{"http-token-file", "http-host", "http-tls-cert", "http-tls-key", "http-advertise", "health-http"}},
		{Title: "Output", Names: []string{"events", "log-level", "log-format", "json", "output", "timeout", "help", "help-all"}},
		{Title: "Compatibility", Names: []string{"wire", "node-type", "announce"}},
	},
	Config: "cluster",
	System: " (default " + cli.SystemConfig + ", if it is there)",
	Foot: `Settings: flags, then BATUTA_* variables (--t-max is BATUTA_T_MAX), then --config FILE.
Exit codes: 0 done, 1 failed, 2 usage, 3 no leader, 4 no agent, 5 not found; batuta help exit-codes
Docs: https://github.com/batuta-dev/batuta
Bugs: https://github.com/batuta-dev/batuta/issues`,
}

// newExitCodesTopic is a page of help, and no command.
func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What each exit code means",
		Long: "The exit codes of every command:\n\n" + cli.Codes + `

The same failure has the same code in every command, whether the address of the agent
was given or is the default. batuta run ends with 0 when its command has, and with 1 or 2
as above; a command's own exit code is in the log.`,
		Example: `  # what a script makes of them
  leader=$(batuta leader) || case $? in
  3) echo "no leader yet" ;;
  4) echo "no agent on this machine" ;;
  esac`,
	}
}

func subcommands(e cli.Env) []*cobra.Command {
	return append(ask.Commands(e),
		newAgentCommand(e),
		newWitnessCommand(e),
		newRunCommand(e),
		ask.NewLockCommand(e, guardLine()),
		newGuardCommand(e),
		newVIPCommand(e),
		newHoldAddressCommand(e),
		newDemoCommand(e),
		newBenchCommand(e),
		newSuperpeersCommand(e),
		initial.NewCommand(e.Stdout),
		newCheckCommand(e),
		recovery.NewCommand(e.Stdout, e.Confirm),
		newConfigCommand(e),
		newSecretCommand(e),
		newTLSCommand(e),
		newVersionCommand(e),
		newCompletionCommand(e),
		newManCommand(),
		simulate.NewCommand(e),
		simulate.NewLabCommand(e),
		newExitCodesTopic(),
	)
}

// choices are the values of flags, by name.
var choices = map[string][]string{
	"algorithm":  algorithm.Names(),
	"agent":      nil, // an address: no file's name
	"announce":   {"both", "new_boss", "identification"},
	"events":     {"json", "text", "off"},
	"fault":      faults(),
	"http":       nil,
	"listen":     nil,
	"log-format": {"text", "json"},
	"log-level":  {"debug", "info", "warn", "error"},
	"membership": {"full", "core"},
	"method":     {"tokens", "textbook", "prefix", "prefix-exact", "random"},
	"missed":     {"run", "skip"},
	"order":      {"ascending", "descending", "random"},
	"output":     {"text", "json", "jsonl"},
	"probe":      {"all", "descending"},
	"profile":    profileNames(),
	"takeover":   quorum.Takeovers(),
	"wire":       {"batuta", "boss"},
}

// complete has a shell complete the values of flags in all of the tree. Commands that ask an agent take
// no file.
func complete(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if values, ok := choices[f.Name]; ok {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // each is registered once
		}
	})
	if cmd.Annotations[cli.Asks] != "" && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}

// newManCommand writes the man pages of the tree that it is in; packagers run it.
func newManCommand() *cobra.Command {
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

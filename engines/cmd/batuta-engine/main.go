// Command batuta-engine holds an election on etcd, Kubernetes, PostgreSQL, MySQL, NATS, Redis, Consul or S3 as batuta does
// among its members: "batuta-engine run --etcd 127.0.0.1:2379 -- ./worker".
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/work/run"
)

// env is the environment of a command, so that a test can replace it.
type env struct {
	stdout, stderr io.Writer
	lookup         func(string) (string, bool) // environment variables
}

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], env{os.Stdout, os.Stderr, os.LookupEnv}))
}

// execute runs a command line and returns its exit code.
func execute(ctx context.Context, args []string, e env) int {
	return cli.Execute(ctx, newRootCommand(e), args, e.stderr)
}

func newRootCommand(e env) *cobra.Command {
	root := &cobra.Command{
		Use:   "batuta-engine",
		Short: "Elect one leader on etcd, Kubernetes, PostgreSQL, MySQL, NATS, Redis, Consul or S3",
		Long: `batuta-engine elects a leader through a store that runs already, the engine: etcd, Kubernetes,
PostgreSQL, MySQL, NATS, Redis, Consul or S3. run runs a command on the leader only. agent has
an HTTP API, hooks and metrics. status, leader and watch ask the engine. Candidates need not
reach each other.

Settings: flags, then BATUTA_* variables (--lease is BATUTA_LEASE), then --config FILE.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 no leader.`,
		Example: `  batuta-engine run --etcd 127.0.0.1:2379 -- ./worker
  batuta-engine status --etcd 127.0.0.1:2379`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Sources{Lookup: e.lookup, Takers: []string{"run"}}.Apply(cmd)
		},
	}
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.Version = version()
	root.SetVersionTemplate(fmt.Sprintf("batuta-engine %s, %s, %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
	root.PersistentFlags().String("config", "", "YAML `file` with flags by name")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(cli.FlagError)
	root.AddCommand(newRunCommand(e), newAgentCommand(e), newStatusCommand(e), newLeaderCommand(e), newWatchCommand(e), newGuardCommand(e))
	cli.RefuseTopics(root)
	cli.CodeFailures(root)
	return root
}

// newGuardCommand is the guard that "batuta-engine run" starts, with the name of its process and its
// arguments. When that process dies while its command runs, the guard kills the command and all that it
// has started, and then releases the leadership at once.
func newGuardCommand(e env) *cobra.Command {
	return &cobra.Command{
		Use:                "guard [PROCESS ARGUMENT…]",
		Short:              "Guard the command of the \"batuta-engine run\" that started it",
		Hidden:             true,
		DisableFlagParsing: true,
		PersistentPreRunE:  func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error {
			orphaned, err := run.Guard(nil)
			if err != nil || !orphaned || len(args) == 0 {
				return err
			}
			root := newRootCommand(e)
			root.SetArgs(args[1:])
			return root.ExecuteContext(context.WithValue(cmd.Context(), bereaved{}, args[0]))
		},
	}
}

// bereaved is the key of a context in which run gives up the lead of a process that has died. Its name is the value.
type bereaved struct{}

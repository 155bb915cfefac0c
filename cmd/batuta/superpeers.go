package main

import (
	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/simulate"
)

func newSuperpeersCommand(e cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "superpeer",
		Aliases: []string{"superpeers"},
		Short:   "Elect many leaders in a large overlay",
		Long: `Super peers: elections in systems where one leader is not enough. agent runs a
node on this machine; status, watch and map ask one. "batuta sim superpeers" simulates
many nodes, "batuta bench superpeers" runs them in one process.`,
		Example: `  batuta superpeer agent --id a --fraction 0.02 --capacity 100
  batuta superpeer status`,
	}, newSuperpeerAgentCommand(e), newSuperpeerStatusCommand(e), newSuperpeerWatchCommand(e), newSuperpeerMapCommand(e),
		cli.Earlier("live", simulate.NewLiveCommand(e)), cli.Earlier("simulate", simulate.NewSuperpeersCommand(e)))
}

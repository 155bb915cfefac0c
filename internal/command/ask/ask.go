// Package ask has the commands that ask an agent over its HTTP API: for its state, and to change it.
package ask

import (
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/lock"
	"github.com/spf13/cobra"
)

// Commands makes those that ask the agent of a member.
func Commands(e cli.Env) []*cobra.Command {
	return []*cobra.Command{
		newStatusCommand(e),
		newExplainCommand(e),
		newLeaderCommand(e),
		newMembersCommand(e),
		newWatchCommand(e),
		newResignCommand(e),
		newTransferCommand(e),
		newCampaignCommand(e),
		newElectionsCommand(e),
		newJobsCommand(e),
		newDrainCommand(e),
		newUndrainCommand(e),
		newPauseCommand(e),
		newResumeCommand(e),
		newTuneCommand(e),
	}
}

// NewLockCommand makes the command that runs a program under a named election, and passes signals on to it. This binary
// with the arguments guard is the program's guard.
func NewLockCommand(e cli.Env, guard []string) *cobra.Command {
	a := &Command{Env: e}
	cmd, run := lock.NewCommand(guard, e.Stderr)
	a.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		return run(cmd.Context(), client)
	}
	return cmd
}

package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/quorum"
)

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
	"output":     {"text", "json", "jsonl"},
	"probe":      {"all", "descending"},
	"profile":    profileNames(),
	"takeover":   quorum.Takeovers(),
	"wire":       {"batuta", "boss"},
}

// askedForCompletion bounds how long a shell waits for an agent.
const askedForCompletion = time.Second

// complete has a shell complete the values of flags in all of the tree, and the ids of
// members where a command takes an id.
func complete(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if values, ok := choices[f.Name]; ok {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // each is registered once
		}
	})
	switch {
	case cmd.Annotations[cli.Asks] == "":
	case slices.Contains([]string{"remove", "transfer", "drain", "undrain"}, cmd.Name()):
		cmd.ValidArgsFunction = members
	case cmd.ValidArgsFunction == nil:
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}

// members gives those that the agent knows which the command is to ask.
func members(cmd *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
	addr, _ := cmd.Flags().GetString("agent")
	client, err := api.NewClient(cmp.Or(addr, cli.DefaultHTTP), api.Access{})
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), askedForCompletion)
	defer cancel()
	var list []api.Member
	if client.Get(ctx, "/v1/members", &list) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, m := range list {
		ids = append(ids, m.ID+"\t"+m.State+" at "+m.Address)
	}
	slices.Sort(ids)
	return ids, cobra.ShellCompDirectiveNoFileComp
}

package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/ask"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/peeragent"
	"github.com/batuta-dev/batuta/superpeer"
)

// newPeerAsking makes a command that asks a super peer's agent, which is where that is by default.
func newPeerAsking(e cli.Env, cmd *cobra.Command, do func(context.Context, *ask.Command, *api.Client) error) *cobra.Command {
	e.Agent = defaultPeerHTTP
	cmd = ask.New(e, cmd, do)
	cmd.Annotations = nil // the system's file is of a member of an election
	cmd.Flags().Lookup("agent").Usage = "`HOST:PORT` or unix:PATH of a node's HTTP API, as in its ready event (default " + defaultPeerHTTP + ")"
	return cmd
}

func newSuperpeerStatusCommand(e cli.Env) *cobra.Command {
	return newPeerAsking(e, &cobra.Command{
		Use:   "status",
		Short: "Show a node's view of its overlay and of what super peers must meet",
		Example: `  batuta superpeer status
  batuta superpeer status --agent 127.0.0.1:7701 --json`,
	}, func(ctx context.Context, a *ask.Command, c *api.Client) error {
		return ask.Get(ctx, a, c, "/v1/status", func(s superpeer.Status) error { return printPeer(a.Stdout, &s) })
	})
}

func printPeer(w io.Writer, s *superpeer.Status) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "node\t%s at %s, overlay %s\n", s.ID, s.Address, s.Overlay)
	switch {
	case s.SuperPeer:
		fmt.Fprintf(out, "super peer\tyes, token %d, version %d, serves %d\n", *s.Token, s.Version, s.Clients)
	case s.HomeID == nil:
		fmt.Fprintf(out, "super peer\tno, and none serves it\n")
	case s.RTTms == nil:
		fmt.Fprintf(out, "served by\t%s at %s\n", *s.HomeID, s.HomeAddress)
	default:
		fmt.Fprintf(out, "served by\t%s at %s, %.1f ms away\n", *s.HomeID, s.HomeAddress, *s.RTTms)
	}
	encrypted := "not encrypted: any process that can reach the port can take part"
	if s.Encrypted {
		encrypted = "encrypted by the secret"
	}
	fmt.Fprintf(out, "overlay\t%d nodes, method %s, %s\n", s.Nodes, s.Method, encrypted)
	for _, w := range s.Warnings {
		fmt.Fprintf(out, "WARNING\t%s\n", w)
	}
	r := &s.Requirements
	for i, x := range []struct {
		name string
		superpeer.Requirement
	}{{"low latency", r.Latency}, {"spread evenly", r.Spread}, {"predefined share", r.Share}, {"bounded load", r.Capacity}} {
		mark := "holds"
		if !x.Holds {
			mark = "NOT YET"
		}
		fmt.Fprintf(out, "%d %s\t%s: %s\n", i+1, x.name, mark, x.Says)
	}
	return out.Flush()
}

func newSuperpeerWatchCommand(e cli.Env) *cobra.Command {
	return newPeerAsking(e, &cobra.Command{
		Use:   "watch",
		Short: "Print what happens to a node, first what holds now, until interrupted",
		Example: `  batuta superpeer watch
  batuta superpeer watch --agent 127.0.0.1:7701 --json | jq .home`,
	}, func(ctx context.Context, a *ask.Command, c *api.Client) error {
		return c.Watch(ctx, nil, ask.Each(a, func(l peeragent.Line) error { return l.WriteText(a.Stdout) }))
	})
}

func newSuperpeerMapCommand(e cli.Env) *cobra.Command {
	return newPeerAsking(e, &cobra.Command{
		Use:   "map",
		Short: "Draw which super peer serves which nodes",
		Long: `map asks one node, which asks all super peers for their clients, and draws them as SVG:
nodes where their coordinates put them, each joined to its super peer. With
--json it prints the same as data, round trips as they were measured. An ordinary
node of --membership core knows 32 super peers at most: ask a super peer for all.`,
		Example: `  batuta superpeer map --agent 127.0.0.1:7701 > overlay.svg
  batuta superpeer map --json | jq '.super_peers[] | {id, clients: (.clients | length)}'`,
	}, func(ctx context.Context, a *ask.Command, c *api.Client) error {
		return ask.Get(ctx, a, c, "/v1/map", func(chart peeragent.Chart) error { return chart.WriteSVG(a.Stdout) })
	})
}

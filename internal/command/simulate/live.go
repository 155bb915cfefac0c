package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/command/cli"
	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/superpeer/lab"
	"github.com/batuta-dev/batuta/internal/superpeer/live"
	"github.com/batuta-dev/batuta/superpeer"
)

// NewLiveCommand makes "batuta bench superpeers".
func NewLiveCommand(e cli.Env) *cobra.Command {
	var o live.Options
	var rtt, method, members string
	var asJSON, quiet bool
	var kill, supers int
	cmd := &cobra.Command{
		Use:   "superpeers",
		Short: "Run an overlay of many nodes in this process, over imposed round trips",
		Long: `superpeers runs real nodes, each with its own membership and gossip, over a network in
memory that imposes the round trips of a matrix (or of the space internet), in
real time, and compares it with the simulated overlay of the same round trips and
seed. 500 nodes take about half of a processor.`,
		Example: `  batuta bench superpeers --rtt measured.csv --fraction 0.05 --rounds 300
  batuta bench superpeers --nodes 200 --capacity 25 --fraction 0.05 --kill-at 60 --kill-supers 1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Method, o.Membership = rules.Method(method), superpeer.Membership(members)
			if err := readLive(&o, rtt); err != nil {
				return cli.Exit(cli.Usage, err)
			}
			if kill > 0 {
				o.Kills = []live.Kill{{At: kill, Supers: supers}}
				if supers == 0 {
					o.Kills[0].Share = 0.1
				}
			}
			if !quiet && cli.IsTerminal(e.Stderr) {
				o.Each = func(s live.Sample) {
					fmt.Fprintf(e.Stderr, "\rround %d: %d of %d super peers, %d not served, mean %.1f ms   ", s.Round, s.Live, s.Wanted, s.Unserved, s.Mean)
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			r, err := live.Run(ctx, o)
			if err != nil {
				return err
			}
			return printLive(e.Stdout, r, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&rtt, "rtt", "", "`FILE` with a square matrix of round trips in milliseconds (default those of the space internet)")
	flags.IntVar(&o.Nodes, "nodes", 0, "`N` nodes (default as many as hosts in the matrix, else 200); more share hosts")
	flags.Float64Var(&o.Fraction, "fraction", 0.05, "`N`, the share of the nodes that are to be super peers")
	flags.IntVar(&o.Capacity, "capacity", 0, "`N` nodes at most are served by a super peer, itself not counted; 0 for no limit")
	flags.StringVar(&method, "method", string(rules.Tokens), "choose super peers by method `NAME`: tokens, textbook, prefix, prefix-exact or random")
	flags.StringVar(&members, "membership", string(superpeer.MembershipFull), "`MODE` full or core; see batuta superpeer agent")
	flags.IntVar(&o.Rounds, "rounds", 120, "run `N` rounds, once all nodes have joined")
	flags.DurationVar(&o.Round, "round", 0, "`DURATION` of a round (default 1s)")
	flags.Float64Var(&o.Loss, "loss", 0, "`N`, the share of packets that the network loses")
	flags.Float64Var(&o.Late, "late", 0, "`N`, the share of packets that the network delays by up to half a round")
	flags.IntVar(&kill, "kill-at", 0, "in round `N` kill a tenth of the nodes, or --kill-supers, without notice; 0 for never")
	flags.IntVar(&supers, "kill-supers", 0, "kill `N` super peers then, and no other nodes")
	flags.Uint64Var(&o.Seed, "seed", 1, "`N` that everything random comes from")
	cli.JSONFlag(cmd, &asJSON)
	flags.BoolVar(&quiet, "no-progress", false, "show no progress")
	return cmd
}

// maxLive is how many nodes a process is to run.
const maxLive = 5000

func readLive(o *live.Options, rtt string) (err error) {
	if rtt != "" {
		if o.RTT, err = readMatrix(rtt); err != nil {
			return err
		}
		if o.Nodes == 0 {
			o.Nodes = o.RTT.Size()
		}
	}
	o.Nodes = cmp.Or(o.Nodes, 200)
	if o.Nodes < 2 || o.Nodes > maxLive {
		return fmt.Errorf("--nodes %d: want 2 to %d", o.Nodes, maxLive)
	}
	if o.Rounds < 1 || o.Rounds > 1_000_000 {
		return fmt.Errorf("--rounds %d: want at least 1", o.Rounds)
	}
	if o.RTT == nil {
		o.RTT, err = lab.Measured(lab.Options{Space: "internet", Nodes: max(o.Nodes, lab.MinNodes), Fraction: 0.5, Seed: o.Seed})
	}
	if err == nil {
		err = o.Validate()
	}
	return err
}

func printLive(w io.Writer, r *live.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	number := func(p *int) string {
		if p == nil {
			return "–"
		}
		return fmt.Sprint(*p)
	}
	mean := "–"
	if r.LabMean != nil {
		mean = fmt.Sprintf("%.2f", *r.LabMean)
	}
	fmt.Fprintf(w, "%s, membership %s, %d nodes in one process, %d rounds of %.0f ms; all had joined after %.0f s\n\n", r.Method, r.Membership, r.Nodes, r.Rounds, r.RoundMS, r.Joined)
	fmt.Fprintf(w, "1 low latency     mean %.2f ms; simulated %s ms\n", r.Mean, mean)
	fmt.Fprintf(w, "                  %d changes of home in the last half\n", r.Changes)
	fmt.Fprintf(w, "2 spread evenly   largest load %d\n", r.Last.LoadMax)
	fmt.Fprintf(w, "3 share           %d live, %d wanted; right from round %s\n", r.Last.Live, r.Last.Wanted, number(r.Exact))
	fmt.Fprintf(w, "4 bounded load    capacity %d exceeded %d times\n", r.Capacity, r.CapOver)
	fmt.Fprintf(w, "a node            %.0f bytes sent a second, %.2f %% of a processor, %.0f kB of memory\n", r.Bytes, 100*r.CPU, r.Memory/1000)
	for _, v := range r.Recovery {
		fmt.Fprintf(w, "round %d: %d killed; of %d clients of super peers 99 %% were served after %s rounds, the number was right after %s\n",
			v.Round, v.Killed, v.Orphans, number(v.Served), number(v.Exact))
	}
	_, err := fmt.Fprintf(w, "%d nodes are not served at the end; %.0f s\n", r.Last.Unserved, r.Seconds)
	return err
}

package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/batuta-dev/batuta/cmd/batuta/internal/live"
	"github.com/batuta-dev/batuta/internal/command/cli"
	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/superpeer/lab"
	"github.com/batuta-dev/batuta/superpeer"
	"github.com/spf13/cobra"
)

// superpeersFlags are the flags of "sim superpeers" as given.
type superpeersFlags struct {
	options       lab.Options
	method        string
	rtt, churn    string
	svg, csv      string
	json, noShown bool
}

// NewSuperpeersCommand makes "batuta sim superpeers".
func NewSuperpeersCommand(e cli.Env) *cobra.Command {
	var f superpeersFlags
	cmd := &cobra.Command{
		Use:   "superpeers",
		Short: "Play the election of super peers in a simulated overlay",
		Long: `superpeers plays the shipped protocol on up to two million nodes that know only what
real ones would, and compares their mean latency with the space's bound, which
knows everything. Latencies are true round trips in milliseconds. The same flags
give the same result.

Churn is a share and a round: 10%@60 replaces a tenth of the nodes in round 60,
+10%@60 adds as many, -10%@60 removes them, 0.5% replaces that share in every
round; several are separated by commas.`,
		Example: `  batuta sim superpeers --nodes 10000 --fraction 0.01 --svg map.svg
  batuta sim superpeers --space internet --capacity 150 --json
  batuta sim superpeers --rtt measured.csv --fraction 0.05 --rounds 200
  batuta sim superpeers --method prefix-exact --churn 10%@60 --csv rounds.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.simulate(cmd, e)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.options.Nodes, "nodes", 10_000, "`N` nodes; of a matrix, all its hosts")
	flags.Float64Var(&f.options.Fraction, "fraction", 0.01, "`N`, the share of the nodes that are to be super peers")
	flags.IntVar(&f.options.Capacity, "capacity", 0, "`N` nodes at most are served by a super peer, itself not counted; 0 for no limit")
	flags.StringVar(&f.method, "method", string(superpeer.Tokens), "choose super peers by method `NAME`: tokens, textbook, prefix, prefix-exact or random")
	flags.StringVar(&f.options.Space, "space", "plane2", "place the nodes in space `NAME`: "+strings.Join(lab.Spaces(), ", "))
	flags.StringVar(&f.rtt, "rtt", "", "`FILE` with a square matrix of round trips in milliseconds, instead of a space")
	flags.IntVar(&f.options.Rounds, "rounds", 200, "play `N` rounds of gossip")
	flags.StringVar(&f.churn, "churn", "none", "nodes that come and go, a `LIST` of SHARE@ROUND")
	flags.Uint64Var(&f.options.Seed, "seed", 1, "`N` that everything random comes from")
	cli.JSONFlag(cmd, &f.json)
	flags.StringVar(&f.svg, "svg", "", "`FILE` for the map and the curves")
	flags.StringVar(&f.csv, "csv", "", "`FILE` with the figures of each round")
	flags.BoolVar(&f.noShown, "no-progress", false, "show no progress bar")
	return cmd
}

func (f *superpeersFlags) simulate(cmd *cobra.Command, e cli.Env) error {
	if err := f.read(cmd); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	svg, err := created("svg", f.svg)
	csv, err2 := created("csv", f.csv)
	defer svg.Close()
	defer csv.Close()
	if err := cmp.Or(err, err2); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	defer frugal(f.options.Nodes)()
	if !f.noShown && cli.IsTerminal(e.Stderr) {
		f.options.Progress = func(round int) {
			if fmt.Fprintf(e.Stderr, "\rround %d of %d ", round, f.options.Rounds); round == f.options.Rounds {
				fmt.Fprintln(e.Stderr)
			}
		}
	}
	report, err := lab.Run(f.options)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	if err := errors.Join(put(svg, report.WriteSVG), put(csv, report.WriteCSV)); err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(e.Stdout).Encode(report)
	}
	return report.WriteTable(e.Stdout)
}

// frugal keeps a run of a million nodes within a gigabyte. Almost all memory is there for the whole
// run: a collector that waits until it has doubled would only waste it. The result undoes that.
func frugal(nodes int) func() {
	const million, limit = 1_000_000, 880 << 20
	percent := debug.SetGCPercent(50)
	bytes := debug.SetMemoryLimit(max(limit, int64(nodes)*limit/million))
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(bytes)
	}
}

// read checks the flags, all of them before anything is played.
func (f *superpeersFlags) read(cmd *cobra.Command) error {
	var faults []error
	given := cmd.Flags().Changed
	f.options.Method = superpeer.Method(f.method)
	churn, err := lab.ParseChurn(f.churn)
	if err != nil {
		faults = append(faults, fmt.Errorf("--%w", err))
	}
	f.options.Churn = churn
	if f.rtt != "" {
		if given("space") {
			faults = append(faults, errors.New("--rtt and --space: give one of them"))
		}
		f.options.Space = ""
		if f.options.RTT, err = readMatrix(f.rtt); err != nil {
			return errors.Join(append(faults, err)...)
		}
		if !given("nodes") {
			f.options.Nodes = f.options.RTT.Size()
		}
	}
	// Zero is no default here: it was written.
	for _, name := range []string{"nodes", "fraction", "rounds"} {
		if cmd.Flags().Lookup(name).Value.String() == "0" {
			faults = append(faults, fmt.Errorf("--%s 0: want more than 0", name))
		}
	}
	if err := f.options.Validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func readMatrix(path string) (*lab.Matrix, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--rtt: %w; give a readable file", err)
	}
	defer file.Close()
	m, err := lab.ReadMatrix(file)
	if err != nil {
		return nil, fmt.Errorf("--rtt %s: %w", path, err)
	}
	return m, nil
}

// created opens a file before the run: one that cannot be written is better known at once. "": nil.
func created(flag, path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w; give a file that can be written", flag, err)
	}
	return f, nil
}

func put(f *os.File, draw func(io.Writer) error) error {
	if f == nil {
		return nil
	}
	return errors.Join(draw(f), f.Sync())
}

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
			var err error
			if o.Kills, err = kills(kill, supers); err != nil {
				return err
			}
			if err := readLive(&o, rtt); err != nil {
				return cli.Exit(cli.Usage, err)
			}
			if !quiet && cli.IsTerminal(e.Stderr) {
				o.Each = func(s live.Sample) {
					fmt.Fprintf(e.Stderr, "\rround %d: %d of %d super peers, %d not served, mean %.1f ms   ", s.Round, s.Live, s.Wanted, s.Unserved, s.Mean)
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			r, err := live.Run(ctx, o)
			if ctx.Err() != nil {
				return errors.New("interrupted")
			} else if err != nil {
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

// kills is what --kill-at and --kill-supers ask for.
func kills(at, supers int) ([]live.Kill, error) {
	switch {
	case at < 0:
		return nil, cli.Usagef("--kill-at %d: give a round, or 0 for never", at)
	case supers < 0:
		return nil, cli.Usagef("--kill-supers %d: give a number of super peers", supers)
	case at == 0 && supers > 0:
		return nil, cli.Usagef("--kill-supers %d goes with --kill-at: add that, or leave it out", supers)
	case at == 0:
		return nil, nil
	case supers == 0:
		return []live.Kill{{At: at, Share: 0.1}}, nil
	}
	return []live.Kill{{At: at, Supers: supers}}, nil
}

// maxLive is how many nodes a process is to run.
const maxLive = 5000

func readLive(o *live.Options, rtt string) (err error) {
	if o.Fraction == 0 { // it was written, and is no default here
		return errors.New("--fraction 0: want more than 0")
	}
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

package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/superpeer/lab"
	"github.com/batuta-dev/batuta/superpeer"
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

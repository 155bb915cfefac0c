package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/floor"
	"github.com/batuta-dev/batuta/internal/command/simulate"
)

func newBenchCommand(e cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "bench",
		Short:   "Measure failover on this machine",
		Example: "  batuta bench failover --nodes 5 --rounds 100",
	}, newBenchFailoverCommand(e), newBenchElectionsCommand(e), simulate.NewLiveCommand(e), newBenchMemberCommand(e), &cobra.Command{
		Use:     "floor",
		Short:   "Run a process of \"batuta bench failover\"",
		Example: "  (started by batuta bench failover)",
		Hidden:  true,
		RunE:    func(_ *cobra.Command, args []string) error { return floor.Member(args, os.Stdin, e.Stdout) },
	})
}

func newBenchFailoverCommand(e cli.Env) *cobra.Command {
	b := &failoverBench{benchCluster: benchCluster{Env: e}}
	cmd := &cobra.Command{
		Use:   "failover",
		Short: "Measure how long a cluster on loopback takes to replace its leader",
		Long: `failover starts members as child processes on loopback, and in each round takes
the leader away: crash is kill -9, freeze is SIGSTOP, resign is the polite way.
It measures from just before that to the first claim of a new leader, and to all
others naming the same new leader, by the times in the members' own events.
With return the highest member is killed and, once another leads, starts again. It
measures from that member's event ready to its claim, and to all naming it.
After a resignation it watches the members for 2·T more: one leadership should
follow, and not of the member that resigned. Rounds in which that member leads
again (returned), and changes of leadership beyond the first (extra_changes), are
counted; if there were any, the figures are printed and the exit code is 1.
Each member saves its state in a data directory of its own, below --data-dir if
that is given and in a temporary directory otherwise; with --data-dir none they
save nothing. Progress goes to standard error.

Each round also measures a floor on the same disk: as many plain processes, one of which
is killed (with other faults it closes its connections), and one round of messages, with a
write to disk before each step. For freeze it adds T less half a heartbeat; for return it
has the handover without the questions before it. A ratio is that of the two medians; it
depends less on the machine than a time does.`,
		Example: `  batuta bench failover --nodes 5 --rounds 100
  batuta bench failover --fault freeze --rounds 10 --json
  batuta bench failover --data-dir /var/tmp`,
		Args: cobra.NoArgs,
	}
	b.register(cmd, 20)
	cmd.Flags().StringVar(&b.fault, "fault", "crash", "take the leader away by `FAULT`: "+strings.Join(faults(), ", "))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := b.check(); err != nil {
			return err
		}
		if !slices.Contains(faults(), b.fault) {
			return cli.Usagef("--fault %q: use one of %s", b.fault, strings.Join(faults(), ", "))
		}
		ctx, stop := cli.Interruptible(cmd.Context())
		defer stop()
		return b.run(ctx)
	}
	return cmd
}

// noDataDir is the value of --data-dir with which members save nothing.
const noDataDir = "none"

// faults are the values of --fault.
func faults() []string { return []string{"crash", "freeze", "resign", "return"} }

// benchCluster is what is measured, as the flags give it.
type benchCluster struct {
	cli.Env
	nodes, rounds int
	algorithm     string
	profile       string
	dataDir       string // "none": no state is kept
	secretFile    string
	quorum        quorumFlags
	json          bool
	cluster       *cluster // once open
}

func (b *benchCluster) register(cmd *cobra.Command, rounds int) {
	fs := cmd.Flags()
	fs.IntVar(&b.nodes, "nodes", 5, "`N` members, 2 to 50")
	fs.IntVar(&b.rounds, "rounds", rounds, "`N` rounds, 1 to 1000")
	fs.StringVar(&b.algorithm, "algorithm", "bully", algorithm.Usage())
	fs.StringVar(&b.profile, "profile", "lan", "give the members the times of profile `NAME`: "+strings.Join(profileNames(), ", "))
	fs.StringVar(&b.dataDir, "data-dir", "", "`DIR` for the members' data directories; none: they save nothing (default a temporary directory)")
	fs.StringVar(&b.secretFile, "secret-file", "", "`FILE` with a secret that the members share: they use TLS")
	b.quorum.registerTakeover(fs)
	cli.JSONFlag(cmd, &b.json)
}

func (b *benchCluster) check() error {
	if err := checkLab(b.algorithm, b.nodes, b.rounds); err != nil {
		return err
	}
	if err := cmp.Or(b.quorum.unread(b.algorithm), b.quorum.check()); err != nil {
		return err
	}
	if b.algorithm == "quorum" && b.dataDir == noDataDir {
		return cli.Usagef("--data-dir none: a quorum keeps its promise only with its log on disk; leave it out, or name a directory")
	}
	if _, ok := profiles[b.profile]; !ok {
		return cli.Usagef("--profile %q: use one of %s", b.profile, strings.Join(profileNames(), ", "))
	}
	return nil
}

// open makes the cluster; none of it runs yet.
func (b *benchCluster) open() (err error) {
	flags := []string{"--algorithm", b.algorithm, "--profile", b.profile, "--secret-file", b.secretFile}
	if b.algorithm == "quorum" {
		flags = append(flags, "--takeover", b.quorum.takeover)
	}
	if b.cluster, err = newCluster(b.nodes, flags...); err != nil {
		return err
	}
	if b.dataDir != noDataDir {
		if b.cluster.dataDir, err = os.MkdirTemp(b.dataDir, "batuta-bench-"); err != nil {
			b.cluster.close()
			return cli.Usagef("--data-dir %q: %v: name a directory that can be written", b.dataDir, err)
		}
	}
	return nil
}

// highest is the leader when all members run.
func (b *benchCluster) highest() string { return b.cluster.members[b.nodes-1].id }

// failoverBench is a run of the command.
type failoverBench struct {
	benchCluster
	fault string

	returned, extraChanges int // see [failoverFigures]

	sync, floorFirst, floorAll []float64
}

// failoverFigures is the answer, times in milliseconds.
type failoverFigures struct {
	Fault     string  `json:"fault"`
	Algorithm string  `json:"algorithm"`
	Nodes     int     `json:"nodes"`
	Rounds    int     `json:"rounds"`
	Durable   bool    `json:"durable"`  // each epoch is on disk before it is sent
	DataDir   string  `json:"data_dir"` // where, as long as it ran; empty: nowhere
	First     summary `json:"first_ms"` // fault to the first claim of a new leader
	All       summary `json:"all_ms"`   // fault to all members that are left naming the same new leader

	Machine    floor.Machine `json:"machine"`
	Sync       summary       `json:"sync_ms"`        // a write to the disk of the data directories; zero: nothing is saved
	FloorFirst summary       `json:"floor_first_ms"` // the same as First and All, of plain processes
	FloorAll   summary       `json:"floor_all_ms"`
	RatioFirst float64       `json:"ratio_first"` // of the medians
	RatioAll   float64       `json:"ratio_all"`

	// What followed a resignation, until 2·T after all agreed; absent for all further faults.
	Returned     *int `json:"returned,omitempty"`      // rounds in which the member that resigned led again
	ExtraChanges *int `json:"extra_changes,omitempty"` // changes of leadership beyond the first of each round
}

func (b *failoverBench) run(ctx context.Context) error {
	if err := b.open(); err != nil {
		return err
	}
	defer b.cluster.close()
	if err := b.cluster.startAll(); err != nil {
		return err
	}
	return b.measure(ctx)
}

// measure plays the rounds in a cluster that runs, and prints the figures.
func (b *failoverBench) measure(ctx context.Context) error {
	if _, err := b.cluster.await(ctx, 1, b.highest()); err != nil {
		return err
	}
	var first, all []float64
	for round := range b.rounds {
		if err := b.floor(ctx); err != nil {
			return err
		}
		f, a, err := b.round(ctx, round+1)
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		first, all = append(first, cli.Milliseconds(f)), append(all, cli.Milliseconds(a))
	}
	figures := failoverFigures{Fault: b.fault, Algorithm: b.algorithm, Nodes: b.nodes, Rounds: b.rounds,
		Durable: b.cluster.dataDir != "", DataDir: b.cluster.dataDir, First: summarize(first), All: summarize(all),
		Machine: floor.Here(), Sync: summarize(b.sync), FloorFirst: summarize(b.floorFirst), FloorAll: summarize(b.floorAll)}
	figures.RatioFirst, figures.RatioAll = figures.First.Median/figures.FloorFirst.Median, figures.All.Median/figures.FloorAll.Median
	if b.fault == "resign" {
		figures.Returned, figures.ExtraChanges = &b.returned, &b.extraChanges
	}
	return cmp.Or(b.print(figures), b.unsteady())
}

// floor measures once what no cluster on this machine can be faster than.
func (b *failoverBench) floor(ctx context.Context) error {
	sync, first, all, err := floor.Round(ctx, []string{b.cluster.executable, "bench", "floor"}, b.nodes, b.fault == "crash", b.cluster.dataDir)
	if b.fault == "freeze" {
		t := profiles[b.profile]
		first, all = first+t.T()-t.Heartbeat/2, all+t.T()-t.Heartbeat/2
	}
	if b.cluster.dataDir != "" {
		b.sync = append(b.sync, cli.Milliseconds(sync))
	}
	b.floorFirst, b.floorAll = append(b.floorFirst, cli.Milliseconds(first)), append(b.floorAll, cli.Milliseconds(all))
	return err
}

// round takes the leader away once, and brings the cluster back to rest.
func (b *failoverBench) round(ctx context.Context, round int) (first, all time.Duration, err error) {
	before, at, err := b.fall(ctx)
	for leadsNoMore(err) { // the machine has held it up
		before, at, err = b.fall(ctx)
	}
	if err != nil {
		return 0, 0, err
	}
	victim := before.leader
	after, err := b.cluster.await(ctx, before.epoch+1, "") // after a return it is there already
	if err != nil {
		return 0, 0, err
	}
	first, all = after.first.Sub(at), after.all.Sub(at)
	fmt.Fprintf(b.Stderr, "round %d/%d: %s of %s: first claim after %.2f ms, all agree on %s after %.2f ms\n",
		round, b.rounds, b.fault, victim.id, cli.Milliseconds(first), after.leader.id, cli.Milliseconds(all))
	switch b.fault {
	case "resign":
		return first, all, b.watch(ctx, round, victim) // it is still there, and stays aside
	case "return":
		return first, all, nil // it leads again
	}
	return first, all, b.restore(ctx, victim, after.epoch)
}

// watch counts the leaderships that follow the victim's resignation, until 2·T from now.
func (b *failoverBench) watch(ctx context.Context, round int, victim *member) error {
	if err := b.cluster.settle(ctx, 2*profiles[b.profile].T()); err != nil {
		return err
	}
	leaders := b.cluster.claims()
	back := slices.Contains(leaders, victim.id)
	if back {
		b.returned++
	}
	b.extraChanges += max(0, len(leaders)-1)
	if back || len(leaders) > 1 {
		fmt.Fprintf(b.Stderr, "round %d/%d: after the resignation of %s these led in turn: %s\n",
			round, b.rounds, victim.id, strings.Join(leaders, ", "))
	}
	return nil
}

// unsteady is the error for resignations after which more than one leadership came.
func (b *failoverBench) unsteady() error {
	if b.returned == 0 && b.extraChanges == 0 {
		return nil
	}
	return cli.Exit(cli.Failed, fmt.Errorf("%d of %d members that resigned led again within 2·T; changes of leadership beyond one a round: %d; the progress lists the leaders of each such round",
		b.returned, b.rounds, b.extraChanges))
}

// fall waits until all agree on a leader, takes it away, and returns the time.
func (b *failoverBench) fall(ctx context.Context) (before agreement, at time.Time, err error) {
	// A fault may come at any moment between two heartbeats.
	rest := election.DefaultHeartbeat + rand.N(election.DefaultHeartbeat)
	if err := b.cluster.settle(ctx, rest); err != nil {
		return before, at, err
	}
	leads := "" // any
	if b.fault == "return" {
		leads = b.highest()
	}
	if before, err = b.cluster.await(ctx, 1, leads); err != nil {
		return before, at, err
	}
	at, err = b.strike(ctx, before.leader)
	return before, at, err
}

// leadsNoMore reports whether a leader was asked to resign that had lost leadership by itself.
func leadsNoMore(err error) bool {
	var answer *api.AnswerError
	return errors.As(err, &answer) && answer.Code == http.StatusConflict
}

// strike brings the fault upon the leader and returns the time.
func (b *failoverBench) strike(ctx context.Context, leader *member) (time.Time, error) {
	switch b.fault {
	case "crash":
		return b.cluster.crash(leader)
	case "freeze":
		return b.cluster.freeze(leader)
	case "return":
		return b.comeBack(ctx, leader)
	default:
		return b.cluster.resign(ctx, leader)
	}
}

// comeBack restarts the leader after another has taken its place, and returns when it was ready.
func (b *failoverBench) comeBack(ctx context.Context, leader *member) (time.Time, error) {
	epoch := leader.epoch
	if _, err := b.cluster.crash(leader); err != nil {
		return time.Time{}, err
	}
	if _, err := b.cluster.await(ctx, epoch+1, ""); err != nil {
		return time.Time{}, err
	}
	b.cluster.mark()
	if err := b.cluster.start(leader); err != nil {
		return time.Time{}, err
	}
	_, err := b.cluster.await(ctx, epoch+2, leader.id)
	b.cluster.claim = leader.at // another may have claimed until then
	return leader.ready, err
}

// restore brings the victim back and waits until the highest leads again.
func (b *failoverBench) restore(ctx context.Context, victim *member, epoch uint64) error {
	revive := b.cluster.thaw
	if b.fault == "crash" {
		revive = b.cluster.start
	}
	if err := revive(victim); err != nil {
		return err
	}
	_, err := b.cluster.await(ctx, epoch+1, b.highest())
	return err
}

func (b *failoverBench) print(f failoverFigures) error {
	if b.json {
		return json.NewEncoder(b.Stdout).Encode(f)
	}
	saved := "on disk below " + f.DataDir
	if !f.Durable {
		saved = "nothing saved"
	}
	var after string
	if f.Returned != nil {
		after = fmt.Sprintf("\nled again   %d of %d that resigned, within 2·T\nmore changes of leadership than resignations  %d\n", *f.Returned, f.Rounds, *f.ExtraChanges)
	}
	_, err := fmt.Fprintf(b.Stdout, `%s, %d members, %s, %d rounds, %s
%s, a write to disk %.2f ms

              median      p99      max  floor    ratio
first claim %s %6.2f ms %5.2f
all agree   %s %6.2f ms %5.2f
%s`, f.Fault, f.Nodes, f.Algorithm, f.Rounds, saved, f.Machine, f.Sync.Median,
		f.First, f.FloorFirst.Median, f.RatioFirst, f.All, f.FloorAll.Median, f.RatioAll, after)
	return err
}

// summary is what is printed of a set of figures.
type summary struct {
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

func (s summary) String() string {
	return fmt.Sprintf("%5.2f ms %5.2f ms %5.2f ms", s.Median, s.P99, s.Max)
}

// summarize sorts v. A quantile is the smallest figure that at least that share of all does not
// exceed (nearest rank); the median of an even number is the mean of the middle two.
func summarize(v []float64) summary {
	if len(v) == 0 {
		return summary{}
	}
	slices.Sort(v)
	n := len(v)
	return summary{
		Median: (v[(n-1)/2] + v[n/2]) / 2,
		P99:    v[int(math.Ceil(0.99*float64(n)))-1],
		Max:    v[n-1],
	}
}

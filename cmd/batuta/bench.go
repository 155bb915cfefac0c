package main

import (
	"bufio"
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/cmd/batuta/internal/simulate"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/floor"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/spf13/cobra"
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
	flags := []string{"--algorithm", b.algorithm, "--profile", b.profile}
	if b.secretFile != "" {
		flags = append(flags, "--secret-file", b.secretFile)
	}
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

// progress prints a line. Its error is that of a pipe without a reader: that ends the run.
func (b *benchCluster) progress(format string, args ...any) error {
	if _, err := fmt.Fprintf(b.Stderr, format, args...); errors.Is(err, syscall.EPIPE) {
		return err
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
	for leadsNoMore(err) {
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
	if err := b.progress("round %d/%d: %s of %s: first claim after %.2f ms, all agree on %s after %.2f ms\n",
		round, b.rounds, b.fault, victim.id, cli.Milliseconds(first), after.leader.id, cli.Milliseconds(all)); err != nil {
		return 0, 0, err
	}
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
		return b.progress("round %d/%d: after the resignation of %s these led in turn: %s\n",
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

// leadsNoMore reports whether a leader was asked to resign that had lost leadership by itself: the machine held it up.
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

func newBenchElectionsCommand(e cli.Env) *cobra.Command {
	b := &electionsBench{benchCluster: benchCluster{Env: e}, breath: time.Second}
	cmd := &cobra.Command{
		Use:   "elections",
		Short: "Measure many elections on one cluster on loopback",
		Long: `elections starts members as child processes on loopback, each a candidate for all of
many elections, and measures until each is led again, as every other member sees it, and
the new leader's work has begun: after a cold start of all, counted from before the first
process begins; in each round after kill -9 of one member, after kill -9 of the
coordinator, and after a drain of one member is asked for, counted from just before that.
Then the cluster is left idle: what the busiest member takes of one core, the resident
memory of the largest, and the bytes that all of them together send in a second.
Progress goes to standard error.`,
		Example: `  batuta bench elections --nodes 5 --count 10000
  batuta bench elections --count 100 --algorithm quorum --rounds 3 --json`,
		Args: cobra.NoArgs,
	}
	b.register(cmd, 5)
	cmd.Flags().IntVar(&b.elections, "count", 10000, fmt.Sprintf("`N` elections, as many as members to %d", named.MaxElections))
	cli.Alias(cmd.Flags(), "count", "elections")
	cmd.Flags().DurationVar(&b.rest, "rest", 10*time.Second, "measure the idle cluster for `DURATION`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := b.check(); err != nil {
			return err
		}
		if b.elections < b.nodes || b.elections > named.MaxElections {
			return cli.Usagef("--count %d: give %d, one for each member, to %d", b.elections, b.nodes, named.MaxElections)
		}
		if b.rest < time.Second {
			return cli.Usagef("--rest %v: give a second or more", b.rest)
		}
		ctx, stop := cli.Interruptible(cmd.Context())
		defer stop()
		return b.run(ctx)
	}
	return cmd
}

// electionsBench is a run of the command.
type electionsBench struct {
	benchCluster
	elections int
	rest      time.Duration
	breath    time.Duration // for which the members rest before a fault, and before they are measured

	member, coordinator, drain []float64
}

// electionsFigures is the answer, times in milliseconds.
type electionsFigures struct {
	Elections       int     `json:"elections"`
	Nodes           int     `json:"nodes"`
	AllLed          float64 `json:"all_led_ms"`
	MemberLoss      summary `json:"member_loss_ms"`
	CoordinatorLoss summary `json:"coordinator_loss_ms"`
	Drain           float64 `json:"drain_ms"`            // the median
	CPU             float64 `json:"cpu_percent"`         // of a core, of the busiest member
	RSS             float64 `json:"rss_mib"`             // of the largest
	Bytes           float64 `json:"bytes_per_s_at_rest"` // that all send
}

// ledWithin is how long until all are led and the shares are even; longer is broken.
const ledWithin = 60 * time.Second

func (b *electionsBench) run(ctx context.Context) error {
	if err := b.open(); err != nil {
		return err
	}
	defer b.cluster.close()
	b.cluster.command = []string{"bench", "member"}
	b.cluster.flags = append(b.cluster.flags, "--names", strconv.Itoa(b.elections))
	began := b.cluster.mark()
	if err := b.cluster.startAll(); err != nil {
		return err
	}
	allLed, err := b.led(ctx, began, nil)
	if err != nil {
		return err
	}
	if err := b.progress("cold start: all are led after %.0f ms\n", cli.Milliseconds(allLed)); err != nil {
		return err
	}
	if err := b.calm(ctx); err != nil {
		return err
	}
	for round := range b.rounds {
		if err := b.round(ctx); err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		last := func(v []float64) float64 { return v[len(v)-1] }
		if err := b.progress("round %d/%d: all are led %.1f ms after a member was killed, %.1f ms after the coordinator was, %.0f ms after a drain was asked for\n",
			round+1, b.rounds, last(b.member), last(b.coordinator), last(b.drain)); err != nil {
			return err
		}
	}
	f := electionsFigures{Elections: b.elections, Nodes: b.nodes, AllLed: cli.Milliseconds(allLed),
		MemberLoss: summarize(b.member), CoordinatorLoss: summarize(b.coordinator), Drain: summarize(b.drain).Median}
	if err := b.atRest(ctx, &f); err != nil {
		return err
	}
	return b.print(f)
}

// round loses a member, then the coordinator, then drains a member.
func (b *electionsBench) round(ctx context.Context) error {
	lose := func(victim *member, figures *[]float64) error {
		at, err := b.cluster.crash(victim)
		if err != nil {
			return err
		}
		took, err := b.led(ctx, at, victim)
		if err != nil {
			return err
		}
		*figures = append(*figures, cli.Milliseconds(took))
		if err := b.cluster.start(victim); err != nil {
			return err
		}
		return b.calm(ctx)
	}
	first, last := b.cluster.members[0], b.cluster.members[b.nodes-1]
	if err := lose(first, &b.member); err != nil {
		return fmt.Errorf("a member is lost: %w", err)
	}
	if err := lose(last, &b.coordinator); err != nil {
		return fmt.Errorf("the coordinator is lost: %w", err)
	}
	took, err := b.drained(ctx, first)
	if err != nil {
		return fmt.Errorf("a member is drained: %w", err)
	}
	b.drain = append(b.drain, cli.Milliseconds(took))
	return b.calm(ctx)
}

// drained has a member drained until it leads nothing, and ends that.
func (b *electionsBench) drained(ctx context.Context, m *member) (time.Duration, error) {
	client, err := m.connect(ctx)
	if err != nil {
		return 0, err
	}
	at := b.cluster.mark()
	if err := client.Call(ctx, "POST", "/v1/drain", api.Drain{ID: m.id}, nil); err != nil {
		return 0, err
	}
	took, err := b.led(ctx, at, m)
	return took, cmp.Or(err, client.Call(ctx, "POST", "/v1/undrain", api.Drain{ID: m.id}, nil))
}

// led waits until each election has a leader other than that member, as all members report, and the work
// for it has begun, and returns how long after since.
func (b *electionsBench) led(ctx context.Context, since time.Time, not *member) (time.Duration, error) {
	var at time.Time
	err := b.until(ctx, "is led", func() bool {
		working := 0
		for _, m := range b.cluster.members {
			if m.process == nil || m.frozen {
				continue
			}
			if m.spread.Led != b.elections || not != nil && m.spread.By[batuta.ID(not.id)] > 0 {
				return false
			}
			working += m.spread.Working
			for _, t := range []time.Time{m.spread.Full.Time, m.spread.Worked.Time} {
				if t.After(at) {
					at = t
				}
			}
		}
		return working == b.elections
	})
	return at.Sub(since), err
}

// calm waits until all members are there, the highest coordinates and no share is more
// than one apart, and then a moment.
func (b *electionsBench) calm(ctx context.Context) error {
	if _, err := b.led(ctx, time.Time{}, nil); err != nil {
		return err
	}
	if _, err := b.cluster.await(ctx, 1, b.highest()); err != nil {
		return err
	}
	err := b.until(ctx, "is led evenly", func() bool {
		for _, m := range b.cluster.members {
			for _, other := range b.cluster.members {
				if n := m.spread.By[batuta.ID(other.id)]; n < b.elections/b.nodes || n > b.elections/b.nodes+1 {
					return false
				}
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	return b.cluster.settle(ctx, b.breath)
}

func (b *electionsBench) until(ctx context.Context, what string, wanted func() bool) error {
	err := b.cluster.until(ctx, ledWithin, wanted)
	if errors.Is(err, errInVain) {
		var seen []string
		for _, m := range b.cluster.members {
			if m.process != nil {
				seen = append(seen, fmt.Sprintf("%s sees %d led, of which by each %v, and works for %d", m.id, m.spread.Led, m.spread.By, m.spread.Working))
			}
		}
		return fmt.Errorf("not every election %s within %v: %s", what, ledWithin, strings.Join(seen, "; "))
	}
	return err
}

// usage is what a member has used up since it began, and the memory it has now.
type usage struct{ cpu, rss, sent float64 }

// atRest measures the members while nothing happens.
func (b *electionsBench) atRest(ctx context.Context, f *electionsFigures) error {
	before, began := make([]usage, b.nodes), time.Now()
	for i, m := range b.cluster.members {
		var err error
		if before[i], err = usageOf(ctx, m); err != nil {
			return err
		}
	}
	if err := b.cluster.settle(ctx, b.rest); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	for i, m := range b.cluster.members {
		now, err := usageOf(ctx, m)
		if err != nil {
			return err
		}
		f.CPU = max(f.CPU, 100*(now.cpu-before[i].cpu)/took)
		f.RSS = max(f.RSS, now.rss/(1<<20))
		f.Bytes += (now.sent - before[i].sent) / took
	}
	return nil
}

// usageOf reads a member's metrics.
func usageOf(ctx context.Context, m *member) (u usage, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.http+"/metrics", nil)
	if err != nil {
		return u, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return u, err
	}
	defer resp.Body.Close()
	wanted := map[string]*float64{"process_cpu_seconds_total": &u.cpu, "process_resident_memory_bytes": &u.rss, "batuta_sent_bytes_total": &u.sent}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if into := wanted[name]; into != nil {
			*into, err = strconv.ParseFloat(value, 64)
			delete(wanted, name)
		}
		if err != nil {
			return u, fmt.Errorf("metrics of member %s: %w", m.id, err)
		}
	}
	return u, nil
}

func (b *electionsBench) print(f electionsFigures) error {
	if b.json {
		return json.NewEncoder(b.Stdout).Encode(f)
	}
	_, err := fmt.Fprintf(b.Stdout, `%d elections, %d members, %s, %d rounds

                       median      p99      max
a member is lost     %s
coordinator is lost  %s

cold start  %.0f ms until all are led
drain       %.0f ms until a member leads none
idle        %.1f %% of one core (the busiest member), %.0f MiB (the largest), %.0f bytes a second (all)
`, f.Elections, f.Nodes, b.algorithm, b.rounds, f.MemberLoss, f.CoordinatorLoss, f.AllLed, f.Drain, f.CPU, f.RSS, f.Bytes)
	return err
}

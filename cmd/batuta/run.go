package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/vip"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/work/jobs"
	runner "github.com/batuta-dev/batuta/internal/work/run"
	"github.com/batuta-dev/batuta/internal/work/systemd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The text of "batuta run --help".
const runLong = `run joins a cluster as "batuta agent" does, and runs COMMAND only while this
member leads: in a process group of its own, with BATUTA_ID, BATUTA_ELECTION,
BATUTA_EPOCH and BATUTA_TOKEN in its environment, and no shell in between.

When leadership is lost, the whole group gets SIGTERM, and SIGKILL after --grace. No other
member leads before all of the group has ended. If batuta itself is killed, or stuck for longer
than the others wait, a guard process kills the group at once: another member may lead already.

When COMMAND ends with exit code 0, batuta resigns and ends with 0 too (with
--restart it starts COMMAND again). When COMMAND fails, batuta resigns, another member may run
it, and this one is a candidate again after a pause that doubles from a second to a minute.

With --schedule COMMAND runs at each scheduled time instead, only on the leader and one run at a
time, with the time in BATUTA_TICK. A run that outlives its leadership is stopped as above. A
time without a leader, or during another run, is made up for once, late (--missed skip leaves it
out). The fields are of UTC, unless CRON_TZ=ZONE precedes them. Exit codes are logged, and
change nothing.

With --election NAME COMMAND runs while this member leads that named election. Named elections
are distributed over the members that run them; the cluster's own election goes on as well.
BATUTA_ELECTION is NAME then, and --on-lead and --on-lose are still of the cluster's own.

With --jobs FILE there is no COMMAND: each line of the file is a job with a schedule, and an
election of its own. The members share them, and run those of one that fails. A job's
lines of output begin with its name. When a job moves to a member that has started, a run in
progress may end first (--finish).

SIGTERM and SIGINT stop COMMAND with the same signal and end batuta; a second one
kills. SIGHUP, SIGUSR1 and SIGUSR2 are passed on to the group; with --jobs SIGHUP reads
the file again.`

const runExample = `  # on each of three machines: the worker runs on one of them
  batuta run --config /etc/batuta.yaml -- ./worker --verbose

  # on each of three machines: a report every five minutes, from one of them
  batuta run --config /etc/batuta.yaml --schedule '*/5 * * * *' -- ./report

  # on each of three machines: each job of a file runs on one of them
  batuta run --config /etc/batuta.yaml --jobs jobs.txt

  # on each of three machines: each shard's worker runs on one of them
  batuta run --config /etc/batuta.yaml --election shard-17 -- ./worker 17

  # on one machine, in two terminals
  batuta run --id 1 --listen 127.0.0.1:7401 --member 2=127.0.0.1:7402 -- sleep 1000
  batuta run --id 2 --listen 127.0.0.1:7402 --member 1=127.0.0.1:7401 -- sleep 1000`

func newRunCommand(e cli.Env) *cobra.Command {
	var f agentFlags
	var j job
	cmd := &cobra.Command{
		Use:     "run [flags] [-- COMMAND [ARG…]]",
		Short:   "Run a command or cron jobs on the leader only",
		Long:    runLong,
		Example: runExample,
		Args: func(_ *cobra.Command, args []string) error {
			j.argv = args
			return nil
		},
	}
	f.register(cmd.Flags())
	if events := cmd.Flags().Lookup("events"); events != nil {
		f.output.Events, events.DefValue = "off", "off" // standard output is the command's
	}
	j.register(cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cmp.Or(j.checkFlags(&f, e), j.check()); err != nil {
			return err
		}
		a := &agentRun{Env: e, flags: &f, cmd: cmd, job: &j}
		return a.run(cmd.Context())
	}
	return cmd
}

// newGuardCommand is what "batuta run", "batuta lock" and "batuta vip" start. For the last it removes
// the addresses of a holder that was killed.
func newGuardCommand(e cli.Env) *cobra.Command {
	var h holding
	cmd := &cobra.Command{
		Use:     "guard",
		Short:   "Guard the command of the batuta process that started it",
		Example: "  (started by batuta run, batuta lock and batuta vip)",
		Hidden:  true,
		// Its settings are its starter's: neither file nor environment is read.
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
	}
	h.register(cmd)
	cmd.RunE = func(_ *cobra.Command, addresses []string) error {
		var clear func() error
		if len(addresses) > 0 {
			c, err := vipConfig(e, h.dev, &h.output, addresses)
			if err != nil {
				return err
			}
			clear = func() error { return vip.Clear(c) }
		}
		_, err := runner.Guard(clear)
		return err
	}
	return cmd
}

// job is the command that an agent runs while it leads, or the many that it does under
// elections of their own. A nil job is none.
type job struct {
	argv     []string
	grace    time.Duration
	last     time.Duration // see [runner.Config]
	clear    func() error  // removes what an earlier run has left; called when the node has started, and after each run; may be nil
	clears   []string      // arguments that make the guard do that
	restart  bool
	election runElection
	planned  planFlags
	plan     *runner.Plan // nil: the command runs for as long as the member leads
	named    lineFlags
	file     *lineFile // nil: there is a single command

	crew   *jobs.Crew // of file
	runs   runs
	begin  func(context.Context, *batuta.Node) error // has them run until they or the context end
	cancel context.CancelCauseFunc
	over   chan error // gives how it ended, once; closed then
	killed bool
}

// runs is a [runner.Runner] or a [jobs.Crew].
type runs interface {
	Signal(syscall.Signal)
	Kill()
	Close()
}

// register adds the flags of "batuta run".
func (j *job) register(fs *pflag.FlagSet) {
	j.registerEnd(fs)
	fs.BoolVar(&j.restart, "restart", false, "start the command again when it ends with exit code 0")
	j.planned.register(fs)
	j.election.register(fs)
	j.named.registerJobs(fs)
}

// registerEnd adds the flag of all commands that run commands.
func (j *job) registerEnd(fs *pflag.FlagSet) {
	fs.DurationVar(&j.grace, "grace", 5*time.Second, "`DURATION` from SIGTERM to SIGKILL")
}

// registerAgent adds those of "batuta agent".
func (j *job) registerAgent(fs *pflag.FlagSet) {
	j.registerEnd(fs)
	j.named.registerElections(fs)
	j.planned.missed, j.election = "run", runElection{weight: 1, seats: 1} // it has no flags for them
}

// checkFlags finds what is wrong with them, whatever the command, and reads the file.
func (j *job) checkFlags(f *agentFlags, e cli.Env) (err error) {
	if j.grace < 0 {
		return cli.Usagef("--grace %v is negative: give 0s to kill at once", j.grace)
	}
	if j.file, err = j.named.file(f, &j.planned, e.Schedules); err != nil {
		return err
	}
	if f.membership.awaitReady && (j.named.jobs != "" || j.planned.schedule != "" || j.election.name != "") {
		return cli.Usagef("--await-ready is for a command that serves while the member leads: leave it out, or --jobs, --schedule and --election")
	}
	if j.plan, err = j.planned.plan(f, j.restart); err != nil {
		return err
	}
	if skips, _ := j.planned.skips(); skips && j.plan == nil && j.named.jobs == "" {
		return cli.Usagef("--missed skip goes with --schedule or --jobs: add one, or leave it out")
	}
	if err := j.election.check(f); err != nil {
		return err
	}
	switch {
	case j.named.jobs != "" && j.election.name != "":
		return cli.Usagef("--election does not go with --jobs, in which each line has one: leave one out")
	case j.named.jobs != "" && j.restart:
		return cli.Usagef("--restart does not go with --jobs, which start again at each tick: leave one out")
	case j.planned.schedule != "" && j.election.name != "":
		return cli.Usagef("--schedule does not go with --election: write both into a file, and give that as --jobs")
	}
	return nil
}

// check finds what is wrong with the command.
func (j *job) check() error {
	switch {
	case j.named.jobs != "" && len(j.argv) > 0:
		return cli.Usagef("--jobs: the commands stand in the file; leave out %s", election.Shown(j.argv[0]))
	case j.named.jobs != "":
		return nil
	case len(j.argv) == 0:
		return cli.Usagef("which command? write it after the flags, as in: batuta run --id 1 -- ./worker")
	}
	if _, err := exec.LookPath(j.argv[0]); err != nil {
		return cli.Usagef("command %w; give its path, or one that is in PATH", err)
	}
	return nil
}

// reports reports whether a command of the user runs, which sends READY=1 once it serves. What "batuta vip" runs only
// holds an address.
func (j *job) reports() bool { return j != nil && len(j.argv) > 0 && j.clear == nil }

// prepare starts the guard, so that the command itself can start at once.
func (j *job) prepare(a *agentRun) error {
	if j == nil {
		return nil
	}
	self, err := runner.Self()
	if err != nil {
		return err
	}
	j.over = make(chan error, 1)
	if j.file != nil {
		j.crew, err = j.file.crew(a, j, self)
		j.runs, j.begin = j.crew, j.crew.Run
		return err
	}
	c := runner.Config{
		Argv: j.argv, Grace: j.grace, Last: j.last, Clear: j.clear, Restart: j.restart, Plan: j.plan,
		Notice: j.election.notice(), Heartbeat: a.flags.heartbeat, T: a.flags.timing().T(),
		Program: self, Guard: append(guardLine(), j.clears...), Logger: a.log,
	}
	if a.flags.membership.awaitReady && j.reports() {
		c.Serve = func(ctx context.Context, l batuta.Leadership) (set []string, end func(), err error) {
			socket, closed, err := systemd.Await(func() { _ = a.node.Ready(ctx, l.Token) }) // refused once it is lost
			if err != nil {
				return nil, nil, err
			}
			return []string{socket}, func() {
				closed()
				_ = a.node.Ready(context.Background(), batuta.Token{}) // it may start again under this leadership
			}, nil
		}
	}
	r, err := runner.New(c)
	j.runs = r
	if err == nil && j.election.name == "" {
		a.guard = r.Guard()
	}
	j.begin = func(ctx context.Context, node *batuta.Node) error { return r.Run(ctx, j.election.node(node, &a.fit)) }
	return err
}

func guardLine() []string { return []string{os.Args[0], "guard"} }

// start has the command run whenever node leads.
func (j *job) start(node *batuta.Node, log *slog.Logger) {
	if j == nil {
		return
	}
	if j.clear != nil {
		if err := j.clear(); err != nil {
			log.Error("before the first lead", "error", err)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	j.cancel = cancel
	go func() {
		defer close(j.over)
		j.over <- j.begin(ctx, node)
	}()
}

// ended gives how the job ended by itself; never for a nil job.
func (j *job) ended() <-chan error {
	if j == nil {
		return nil
	}
	return j.over
}

// pass hands a signal on to the command; it reports whether it was for that.
func (j *job) pass(s os.Signal) bool {
	sig, _ := s.(syscall.Signal)
	if j == nil || sig == syscall.SIGHUP && (j.file != nil || j.clear != nil) {
		return false // it reloads: the holder of an address takes no signal of a user
	} else if sig != syscall.SIGHUP && sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 {
		return false
	}
	j.runs.Signal(sig)
	return true
}

// stop asks the command to end by the signal that ends batuta.
func (j *job) stop(s os.Signal) {
	if j == nil {
		return
	}
	sig, _ := s.(syscall.Signal)
	j.cancel(runner.StopSignal{Signal: sig})
}

// kill ends the command's grace; it reports whether that is new.
func (j *job) kill() bool {
	if j == nil || j.killed {
		return false
	}
	j.killed = true
	j.runs.Kill()
	return true
}

// close ends the guard once nothing runs any more.
func (j *job) close() {
	if j == nil || j.runs == nil {
		return
	}
	if j.cancel != nil {
		j.cancel(nil)
		for range j.over { // until it is closed
		}
	}
	j.runs.Close()
}

// parting is how long the command may take to end.
func (j *job) parting() time.Duration {
	if j == nil {
		return 0
	}
	return j.grace
}

// catch has the signals sent that this agent takes. A signal that its starter
// had ignored, as nohup does, stays ignored.
func (j *job) catch(signals chan<- os.Signal) {
	caught := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE}
	if j != nil {
		caught = append(caught, syscall.SIGUSR1, syscall.SIGUSR2)
	}
	if j != nil && j.file == nil {
		caught = cli.Caught(caught...)
	}
	signal.Notify(signals, caught...)
}

// runElection is the election of "batuta run".
type runElection struct {
	name          string
	weight, seats int
	prefer        bool
}

func (r *runElection) register(fs *pflag.FlagSet) {
	fs.IntVar(&r.weight, "weight", 1, "`N` by which elections are spread: what this one costs its leader [--election]")
	fs.BoolVar(&r.prefer, "prefer", false, "lead the election whenever this member may [--election]")
	fs.IntVar(&r.seats, "seats", 1, "`N` members lead the election at once, each under a token of its own [--election]")
	fs.StringVar(&r.name, "election", "", "`NAME` of a named election: run the command while this member leads that (default the cluster's own)")
}

func (r *runElection) check(f *agentFlags) error {
	if r.name == ownElection {
		r.name = ""
	}
	switch {
	case r.name == "" && r.weight != 1:
		return cli.Usagef("--weight %d goes with --election NAME: add that, or leave it out", r.weight)
	case r.name == "" && r.seats != 1:
		return cli.Usagef("--seats %d goes with --election NAME: add that, or leave it out", r.seats)
	case r.name == "" && r.prefer:
		return cli.Usagef("--prefer goes with --election NAME: add that, or leave it out; --priority is for the cluster's own")
	case r.name == "":
		return nil
	case r.weight < 1 || r.weight > named.MaxWeight:
		return cli.Usagef("--weight %d: give a number of 1 to %d", r.weight, named.MaxWeight)
	case r.seats < 1 || r.seats > named.MaxSeats:
		return cli.Usagef("--seats %d: give a number of 1 to %d", r.seats, named.MaxSeats)
	}
	return cmp.Or(manyElections("--election", f), cli.CheckElection(r.name))
}

// manyElections checks whether a member with those flags can be a candidate of what flag names.
func manyElections(flag string, f *agentFlags) error {
	switch {
	case f.wire.name != "batuta":
		return cli.Usagef("%s does not go with --wire %s, which has only the cluster's own election", flag, f.wire.name)
	case f.membership.observer:
		return cli.Usagef("%s does not go with --observer, which leads nothing: leave one out", flag)
	}
	return nil
}

// reports are on the health of a member. Its command and the clients of its API each end only what they
// have reported.
type reports struct {
	node            *batuta.Node
	mu              sync.Mutex
	command, client error // nil: it is healthy
}

func (r *reports) set(ctx context.Context, by *error, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	*by = err
	return r.node.SetHealth(ctx, cmp.Or(r.command, r.client))
}

// byCommand is a node with the reports of its command.
type byCommand struct {
	*batuta.Node
	fit *reports
}

func (w byCommand) SetHealth(ctx context.Context, err error) error {
	return w.fit.set(ctx, &w.fit.command, err)
}

// byClients is a node with the reports of the clients of its API.
type byClients struct {
	jobs.Node
	fit *reports
}

func (a byClients) SetHealth(ctx context.Context, err error) error {
	return a.fit.set(ctx, &a.fit.client, err)
}

// ownElection is the name of the cluster's own election.
const ownElection = "default"

// node is what the command runs on.
func (r *runElection) node(n *batuta.Node, fit *reports) runner.Node {
	if r == nil || r.name == "" {
		return byCommand{n, fit}
	}
	how := []batuta.ElectionOption{batuta.Weight(r.weight), batuta.Seats(r.seats)}
	if r.prefer {
		how = append(how, batuta.Prefer())
	}
	return runner.Under(n, n.Election(r.name, how...))
}

// notice is the part of a lease that is left when the command is asked to end.
func (r *runElection) notice() int {
	if r == nil || r.name == "" {
		return 0
	}
	return runner.NamedNotice
}

// lastTime is what the holder of an address has to remove it once it is asked to end. It needs a few
// milliseconds. Then its guard kills it and removes the address, with the rest of the lease to do so.
const lastTime = 100 * time.Millisecond

func newVIPCommand(e cli.Env) *cobra.Command {
	var f agentFlags
	var dev string
	cmd := &cobra.Command{
		Use:   "vip ADDRESS/BITS… --dev DEV [agent flags]",
		Short: "Hold a floating IP address on the leader",
		Long: `vip joins a cluster as "batuta agent" does. While this member leads, the network
device has the addresses, IPv4 or IPv6, and announces them again and again by gratuitous ARP
or unsolicited neighbor advertisement. Clients need one address, and
reach whichever machine leads.

The addresses are removed before another member leads: on SIGTERM, when leadership ends,
and when the device has no carrier. If batuta is killed or stuck, another process of it
removes them; with --algorithm quorum before the lease ends.
If all its processes are killed at once, the kernel removes them within 5 s.
What an earlier run has left is removed at the start.

It needs CAP_NET_ADMIN and CAP_NET_RAW, and Linux.`,
		Example: `  # on each of two machines or more, their own addresses being 10.0.0.1, 10.0.0.2, …
  batuta vip 10.0.0.100/24 --dev eth0 --id 1 --listen 10.0.0.1:7400 --secret-file cluster.key \
    --member 2=10.0.0.2:7400
  batuta vip 10.0.0.100/24 2001:db8::100/64 --dev eth0 --config /etc/batuta.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("which address? write it first, as in: batuta vip 10.0.0.100/24 --dev eth0")
			}
			return nil
		},
	}
	f.register(cmd.Flags())
	registerDev(cmd, &dev)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := vipConfig(e, dev, &f.output, args)
		if err != nil {
			return err
		}
		if err := vip.Check(c); err != nil {
			return cli.Exit(cli.Usage, err)
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		held := slices.Concat([]string{"--dev", dev}, f.output.Args(), args)
		j := &job{argv: append([]string{self, "hold-address"}, held...), grace: lastTime, last: lastTime,
			clear: func() error { return vip.Clear(c) }, clears: held}
		a := &agentRun{Env: e, flags: &f, cmd: cmd, job: j}
		return a.run(cmd.Context())
	}
	return cmd
}

func registerDev(cmd *cobra.Command, dev *string) {
	cmd.Flags().StringVar(dev, "dev", "", "`NAME` of the network device, such as eth0")
}

// holding are the flags of the processes that "batuta vip" starts.
type holding struct {
	dev    string
	output cli.Output
}

func (h *holding) register(cmd *cobra.Command) {
	registerDev(cmd, &h.dev)
	h.output.Register(cmd.Flags(), "off")
}

func vipConfig(e cli.Env, dev string, output *cli.Output, args []string) (c vip.Config, err error) {
	if dev == "" {
		return c, cli.Usagef("on which network device? add --dev, as in: batuta vip %s --dev eth0", strings.Join(args, " "))
	}
	var addresses []netip.Prefix
	if addresses, err = vip.Parse(args); err != nil {
		return c, cli.Exit(cli.Usage, err)
	}
	log, err := output.Direct(e.Stderr)
	return vip.Config{Addresses: addresses, Dev: dev, Log: log}, err
}

// newHoldAddressCommand is what "batuta vip" runs while it leads.
func newHoldAddressCommand(e cli.Env) *cobra.Command {
	var h holding
	cmd := &cobra.Command{
		Use:     "hold-address",
		Short:   "Hold an address for the \"batuta vip\" that started it",
		Example: "  (started by batuta vip)",
		Hidden:  true,
		// Its settings are its starter's: neither file nor environment is read.
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
	}
	h.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2) // not for it
		err := holdAddress(ctx, e, &h, args)
		stop()
		if err == nil { // a signal: exit code 0 would end batuta, which hands over instead if it has sent none
			syscall.Kill(os.Getpid(), syscall.SIGTERM)
			time.Sleep(lastTime)
			err = errors.New("ended by a signal")
		}
		return err
	}
	return cmd
}

func holdAddress(ctx context.Context, e cli.Env, h *holding, args []string) error {
	c, err := vipConfig(e, h.dev, &h.output, args)
	if err != nil {
		return err
	}
	c.Log = c.Log.With("token", os.Getenv("BATUTA_TOKEN"))
	return vip.Hold(ctx, c)
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutacron"
	"github.com/batuta-dev/batuta/compat/boss"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/core/attest"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/net/discovery"
	"github.com/batuta-dev/batuta/internal/work/jobs"
	runner "github.com/batuta-dev/batuta/internal/work/run"
	"github.com/batuta-dev/batuta/internal/work/schedule"
	"github.com/batuta-dev/batuta/quorum"
	"github.com/spf13/pflag"
)

// agentFlags are the flags of a member of a cluster.
type agentFlags struct {
	cluster, id, listen, advertise string
	members                        []string
	priority                       int
	algorithm, probe, profile      string
	preempt, noPreempt             bool
	heartbeat, tMax, tProcess      time.Duration
	dataDir, http                  string
	httpHosts                      []string
	output                         cli.Output
	membership                     memberFlags
	hooks                          hookFlags
	quorum                         quorumFlags
	wire                           wireFlags
	security                       securityFlags
}

func (f *agentFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.cluster, "cluster", "default", "`NAME` of the cluster; members of other clusters are refused")
	fs.StringVar(&f.id, "id", "", "`ID` of this member (default a UUIDv4, kept in the data directory)")
	fs.IntVar(&f.priority, "priority", 0, "rank of this member, `N`; of equal ones the higher ID ranks first")
	fs.StringVar(&f.listen, "listen", "127.0.0.1:7400", "`HOST:PORT` at which members reach this one; port 0 picks a free one")
	fs.StringVar(&f.advertise, "advertise", "", "`HOST:PORT` to publish instead of the listen address (default for 0.0.0.0: the address that members are reached from)")
	cli.ListVar(fs, &f.members, "member", "`ID=HOST:PORT` of a member, this one included or not; repeatable")
	f.membership.register(fs)
	fs.StringVar(&f.algorithm, "algorithm", "bully", algorithm.Usage())
	fs.StringVar(&f.probe, "probe", "descending", "ask higher members in `MODE` all (at once) or descending (one by one) [bully]")
	f.quorum.register(fs)
	fs.BoolVar(&f.preempt, "preempt", true, "let a higher-ranked member that returns take over; with --wire boss false if not given")
	fs.BoolVar(&f.noPreempt, "no-preempt", false, "same as --preempt=false: the leader stays when a higher-ranked member returns")
	fs.StringVar(&f.profile, "profile", "lan", "set heartbeat, t-max and t-process together, by profile `NAME`: "+strings.Join(profileNames(), ", "))
	fs.DurationVar(&f.heartbeat, "heartbeat", election.DefaultHeartbeat, "`DURATION` between two heartbeats of a leader")
	fs.DurationVar(&f.tMax, "t-max", election.DefaultTMax, "longest `DURATION` for which a message travels")
	fs.DurationVar(&f.tProcess, "t-process", election.DefaultTProcess, "longest `DURATION` for which a message is handled")
	fs.StringVar(&f.dataDir, "data-dir", "", "`DIR` that keeps the state, created with mode 0700 (default none: the state ends with the process)")
	fs.StringVar(&f.http, "http", cli.DefaultHTTP, "`HOST:PORT` or unix:PATH of the HTTP API, or off; if the default port is taken, any free one")
	cli.ListVar(fs, &f.httpHosts, "http-host", "`NAME` under which the API may be asked, besides localhost and IP addresses; repeatable")
	f.output.Register(fs, "text")
	f.hooks.Register(fs, "member")
	f.wire.register(fs)
	f.security.register(fs)
}

// ofLeaders are the flags of members that may lead, and of algorithms other than quorum.
var ofLeaders = []string{"priority", "algorithm", "probe", "preempt", "bootstrap", "expect", "min-members", "await-ready", "observer", "pod-label",
	"check", "check-interval", "check-timeout", "rise", "fall", "lead-unhealthy", "on-lead", "on-lose", "on-change", "hook-timeout", "wire", "node-type", "announce"}

// registerWitness adds the flags of a witness.
func (f *agentFlags) registerWitness(fs *pflag.FlagSet) {
	var all pflag.FlagSet
	f.register(&all)
	all.VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(ofLeaders, flag.Name) {
			fs.AddFlag(flag)
		}
	})
	f.algorithm, f.membership.observer, f.membership.witness = "quorum", true, true
}

// config makes the node's configuration. An error that the library has of a field
// names the flag here, which is what the user typed.
func (f *agentFlags) config(log *slog.Logger) (batuta.Config, error) {
	if err := f.wire.defaults(f); err != nil {
		return batuta.Config{}, err
	}
	if err := cmp.Or(f.checkTimes(), f.output.Check(), f.checkNames(), f.membership.validate(), f.hooks.Check(), f.security.check(f)); err != nil {
		return batuta.Config{}, err
	}
	// A file has both, as "batuta config show" writes it.
	if given := f.wire.set.Lookup("preempt"); f.noPreempt && f.preempt && given.Changed && cli.SourceOf(given) != "file" {
		return batuta.Config{}, cli.Usagef("--no-preempt does not go with --preempt: leave one out")
	}
	algorithm, err := f.newAlgorithm()
	if err != nil {
		return batuta.Config{}, err
	}
	peers, err := parseMembers(f.members)
	if err != nil {
		return batuta.Config{}, err
	}
	c := batuta.Config{
		Cluster: f.cluster, ID: batuta.ID(f.id), Priority: f.priority, Listen: f.listen, Advertise: f.advertise,
		Peers: peers, Algorithm: algorithm, NoPreempt: f.noPreempt || !f.preempt,
		Heartbeat: f.heartbeat, TMax: f.tMax, TProcess: f.tProcess,
		DataDir: f.dataDir, Logger: log,
	}
	f.membership.apply(&c)
	f.wire.apply(&c)
	c.Meta = f.security.advertises(f.http, c.Meta)
	c.Security = f.security.security()
	return c, nil
}

// timing are the three times together.
func (f *agentFlags) timing() election.Timing {
	return election.Timing{Heartbeat: f.heartbeat, TMax: f.tMax, TProcess: f.tProcess}
}

func (f *agentFlags) checkTimes() error {
	for _, t := range []struct {
		flag string
		d    time.Duration
	}{{"--heartbeat", f.heartbeat}, {"--t-max", f.tMax}, {"--t-process", f.tProcess}} {
		if t.d <= 0 {
			return cli.Usagef("%s %v: give a time above zero, such as 100ms", t.flag, t.d)
		}
		if t.d < batuta.MinTime || t.d > batuta.MaxTime {
			return cli.Usagef("%s %v: give %v to %v, such as 100ms", t.flag, t.d, batuta.MinTime, batuta.MaxTime)
		}
	}
	if silence := f.timing().T(); f.heartbeat >= silence {
		return cli.Usagef("--heartbeat %v is not below T = 2·t-max + t-process = %v: followers would suspect a healthy leader; shorten it or lengthen --t-max", f.heartbeat, silence)
	}
	return nil
}

func (f *agentFlags) checkNames() error {
	if _, err := election.ParseID(f.id); f.id != "" && err != nil {
		return cli.Usagef("--id: %w", err)
	}
	if err := cli.CheckAddress("--listen", f.listen); err != nil {
		return err
	}
	if f.advertise != "" {
		if err := cli.CheckAddress("--advertise", f.advertise); err != nil {
			return err
		}
	}
	for _, name := range f.httpHosts {
		if election.CheckAddress(name+":1") != nil {
			return cli.Usagef("--http-host %q is not a host name, such as batuta.example; leave out the port", name)
		}
	}
	return nil
}

// apiNames are the names under which the API may be asked: those given, and those that its own
// addresses have.
func apiNames(hosts []string, addresses ...string) []string {
	names := slices.Clone(hosts)
	for _, addr := range addresses {
		if host, _, err := net.SplitHostPort(addr); err == nil && host != "" {
			names = append(names, host)
		}
	}
	return names
}

// parseMembers reads --member ID=HOST:PORT.
func parseMembers(list []string) ([]batuta.Peer, error) {
	var peers []batuta.Peer
	seen := map[batuta.ID]string{}
	for _, item := range list {
		id, addr, err := cli.Member("--member", item)
		if err != nil {
			return nil, err
		}
		if earlier, twice := seen[id]; twice && earlier != addr {
			return nil, cli.Usagef("--member %s has both %s and %s; keep one", id, earlier, addr)
		} else if twice {
			continue
		}
		seen[id] = addr
		peers = append(peers, batuta.Peer{ID: id, Addr: addr})
	}
	return peers, nil
}

// memberFlags are how a member joins, whether it may lead, and how it leaves.
type memberFlags struct {
	join            []string
	bootstrap       bool
	expect          int
	minMembers      int
	reapAfter       time.Duration
	observer, leave bool
	witness         bool // it is "batuta witness", and has no flag
	awaitReady      bool
	check           checkFlags
	meta            metaFlag
}

func (f *memberFlags) register(fs *pflag.FlagSet) {
	cli.ListVar(fs, &f.join, "join", "`HOST:PORT` of any member to join through, srv:NAME or file:PATH; a name means all its addresses; repeatable")
	fs.BoolVar(&f.bootstrap, "bootstrap", false, "create the cluster if there is none: on one member, once; the others, with --join and no --member, then create none")
	fs.IntVar(&f.expect, "expect", 0, "wait for `N` connected members before the first of all elections; 0 waits for none")
	fs.IntVar(&f.minMembers, "min-members", 0, "lead only while receiving `N` members, this one included; 0 needs none (not with quorum)")
	fs.DurationVar(&f.reapAfter, "reap-after", 0, "`DURATION` after which the leader removes a member that is away; 0 removes none")
	fs.BoolVar(&f.observer, "observer", false, "follow, and never lead")
	fs.BoolVar(&f.leave, "leave", false, "on SIGTERM or SIGINT leave the cluster, until joining again")
	fs.BoolVar(&f.awaitReady, "await-ready", false, "lead as ready only once the command sends READY=1 to NOTIFY_SOCKET, or --on-lead succeeds")
	fs.Var(&f.meta, "meta", "`KEY=VALUE` that this member publishes, such as url=http://10.0.0.5:8080; repeatable")
	f.check.register(fs)
}

func (f *memberFlags) validate() error {
	for _, source := range f.join {
		if err := discovery.Check(source); err != nil {
			return cli.Usagef("--join %q is not HOST:PORT, srv:NAME or file:PATH: %w", source, err)
		}
	}
	if err := election.CheckMeta(f.meta); err != nil {
		return cli.Usagef("--meta: %w", err)
	}
	return f.check.validate()
}

// apply is for flags that validate has found good.
func (f *memberFlags) apply(c *batuta.Config) {
	c.Join, c.Observer, c.Witness, c.Bootstrap, c.Expect = f.join, f.observer, f.witness, f.bootstrap, f.expect
	c.MinMembers, c.Meta, c.ReapAfter, c.AwaitReady = f.minMembers, f.meta, f.reapAfter, f.awaitReady
	c.Health, c.LeadUnhealthy = f.check.health(), f.check.leadUnhealthy
}

// metaFlag is --meta KEY=VALUE, as often as there are pairs. A variable has several
// between spaces; a value with a space in it goes in the file or on the command line.
type metaFlag map[string]string

// String implements [pflag.Value].
func (f *metaFlag) String() string { return api.Pairs(*f) }

// Type implements [pflag.Value].
func (f *metaFlag) Type() string { return "key=value" }

// Set implements [pflag.Value].
func (f *metaFlag) Set(pair string) error {
	key, value, ok := strings.Cut(pair, "=")
	if _, twice := (*f)[key]; !ok {
		return fmt.Errorf("write KEY=VALUE, such as url=http://10.0.0.5:8080")
	} else if twice {
		return fmt.Errorf("key %q is given twice: keep one", election.Shown(key))
	}
	if *f == nil {
		*f = metaFlag{}
	}
	(*f)[key] = value
	return nil
}

// Append implements [pflag.SliceValue].
func (f *metaFlag) Append(pair string) error { return f.Set(pair) }

// Replace implements [pflag.SliceValue].
func (f *metaFlag) Replace(pairs []string) error {
	fresh := metaFlag{}
	for _, pair := range pairs {
		if err := fresh.Set(pair); err != nil {
			return err
		}
	}
	*f = fresh
	return nil
}

// GetSlice implements [pflag.SliceValue].
func (f *metaFlag) GetSlice() []string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(*f)) {
		pairs = append(pairs, key+"="+(*f)[key])
	}
	return pairs
}

// wireFlags choose the protocol between members.
type wireFlags struct {
	name, nodeType, announce string
	set                      *pflag.FlagSet // all flags, to see which were given
}

func (f *wireFlags) register(fs *pflag.FlagSet) {
	f.set = fs
	fs.StringVar(&f.name, "wire", "batuta", "speak protocol `NAME` between members: batuta, or boss (JSON, with nodes that do not run batuta)")
	fs.StringVar(&f.nodeType, "node-type", "", "`NAME` of the type that the nodes have in common, such as scrapper [wire boss]")
	fs.StringVar(&f.announce, "announce", "both", "announce a boss in `MODE` both, new_boss or identification [wire boss]")
}

// defaults puts those of the chosen wire in place of the flags' own.
func (f *wireFlags) defaults(a *agentFlags) error {
	if !slices.Contains([]string{"batuta", "boss"}, f.name) {
		return cli.Usagef("--wire %q: use batuta or boss", f.name)
	}
	if _, err := f.announcement(); err != nil {
		return err
	}
	if f.name != "boss" {
		if f.nodeType != "" {
			return cli.Usagef("--node-type %q: it goes with --wire boss; leave it out, or add that", f.nodeType)
		}
		if f.announce != "both" {
			return cli.Usagef("--announce %q: it goes with --wire boss; leave it out, or add that", f.announce)
		}
		return nil
	}
	if f.nodeType == "" {
		return cli.Usagef("--wire boss: give --node-type, the type that the other nodes have, such as scrapper")
	}
	if a.id == "" {
		return cli.Usagef("--wire boss: give --id, this member's IP address, such as 172.18.0.5")
	}
	given := f.set.Changed
	if !given("preempt") {
		a.preempt = false
	}
	if !given("heartbeat") {
		a.heartbeat = boss.DefaultHeartbeat
	}
	if !given("t-max") {
		a.tMax = boss.DefaultTMax
	}
	if !given("t-process") {
		a.tProcess = boss.DefaultTProcess
	}
	if !given("listen") {
		a.listen = net.JoinHostPort(a.id, strconv.Itoa(boss.DefaultPort))
	}
	return nil
}

func (f *wireFlags) announcement() (boss.Announce, error) {
	switch f.announce {
	case "both":
		return boss.Both, nil
	case "new_boss":
		return boss.NewBoss, nil
	case "identification":
		return boss.Identification, nil
	}
	return 0, cli.Usagef("--announce %q: use both, new_boss or identification", f.announce)
}

// apply sets the wire up.
func (f *wireFlags) apply(c *batuta.Config) {
	if f.name != "boss" {
		return
	}
	announce, _ := f.announcement() // defaults has seen it
	c.Wire = boss.New(boss.Options{NodeType: f.nodeType, Announce: announce, Preempt: !c.NoPreempt})
	if b, ok := c.Algorithm.(*bully.Bully); ok {
		bully.WithDead()(b) // the original asks them too
	}
}

// defaultFinish is well within what "batuta drain" waits for.
const defaultFinish = 30 * time.Second

// lineFlags name files with an election in each line, of which the member is a candidate.
type lineFlags struct {
	elections string // of "batuta agent"
	jobs      string // of "batuta run"
	finish    time.Duration
}

func (f *lineFlags) registerElections(fs *pflag.FlagSet) {
	fs.StringVar(&f.elections, "elections-file", "", "`FILE` of elections for which this member is a candidate, one per line: NAME [weight=N] [prefer] [seats=N] [COMMAND ARG...], which runs while this member leads it; SIGHUP reads it again")
	cli.Alias(fs, "elections-file", "elections")
}

func (f *lineFlags) registerJobs(fs *pflag.FlagSet) {
	fs.StringVar(&f.jobs, "jobs", "", "`FILE` of jobs, one per line: NAME SCHEDULE [weight=N] [prefer] [missed=run|skip] [timeout=DURATION] [retries=N] COMMAND ARG..., each an election of its own; SIGHUP reads it again")
	fs.DurationVar(&f.finish, "finish", defaultFinish, "when a job moves to another member, let a run that is under way go on for `DURATION`, then stop it [--jobs]")
}

// file is the file that they name; nil: none.
func (f *lineFlags) file(a *agentFlags, p *planFlags, parse func(string) (schedule.Schedule, error)) (*lineFile, error) {
	if parse == nil {
		parse = scheduleOf
	}
	l := &lineFile{flag: "--elections-file", path: f.elections, format: jobs.Format{Own: ownElection, Schedule: parse}}
	if f.jobs != "" {
		l.flag, l.path, l.format.Jobs = "--jobs", f.jobs, true
	}
	switch {
	case f.finish < 0:
		return nil, cli.Usagef("--finish %v is negative: give 0s to have a job stopped at once", f.finish)
	case f.jobs == "" && f.finish != 0 && f.finish != defaultFinish:
		return nil, cli.Usagef("--finish %v goes with --jobs: add that, or leave it out", f.finish)
	case l.path == "":
		return nil, nil
	case f.jobs != "" && p.schedule != "":
		return nil, cli.Usagef("--schedule does not go with --jobs, in which each line has one: leave one out")
	}
	var err error
	if l.format.SkipMissed, err = p.skips(); err != nil {
		return nil, err
	}
	if err := manyElections(l.flag, a); err != nil {
		return nil, err
	}
	if l.lines, err = l.format.Read(l.path); err != nil {
		return nil, cli.Usagef("%s: %w", l.flag, cli.Unread(err))
	}
	if err := (jobs.Config{Lines: l.lines, Meta: a.membership.meta}).Check(); err != nil {
		return nil, cli.Usagef("--jobs: besides --meta, a member publishes the last scheduled time of each job: %w", err)
	}
	return l, nil
}

// lineFile is a file of elections, or of jobs.
type lineFile struct {
	flag, path string
	format     jobs.Format
	lines      []jobs.Line
}

// crew is for its lines.
func (l *lineFile) crew(a *agentRun, j *job, self string) (*jobs.Crew, error) {
	c := jobs.Config{Lines: l.lines, Grace: j.grace, Finish: j.named.finish, Heartbeat: a.flags.heartbeat, T: a.flags.timing().T(), Program: self, Guard: guardLine(),
		Meta: a.flags.membership.meta, Logger: a.log}
	if !l.format.Jobs {
		c.Stdout = os.Stderr // standard output is for events
	}
	return jobs.New(c)
}

// reload reads its lines again. With an error what was goes on.
func (j *job) reload() error {
	if j == nil || j.file == nil {
		return nil
	}
	lines, err := j.file.format.Read(j.file.path)
	if err != nil {
		return err
	}
	return j.crew.Change(lines)
}

// book is what this agent knows of jobs.
func (j *job) book() *jobs.Book {
	if j == nil || j.crew == nil {
		return jobs.NewBook()
	}
	return j.crew.Book()
}

// has reports whether this agent is itself a candidate of that election.
func (j *job) has(election string) bool {
	switch {
	case j == nil:
		return false
	case j.file != nil:
		return j.crew.Has(election)
	}
	canonical, _ := named.Name(j.election.name) // it has been checked
	return j.election.name != "" && canonical == election
}

// shows returns the elections that the events include; nil: none.
func (j *job) shows() func(election string) bool {
	switch {
	case j == nil:
		return nil
	case j.file != nil:
		return func(string) bool { return true }
	case j.election.name != "":
		canonical, _ := named.Name(j.election.name) // it has been checked
		return func(name string) bool { return name == canonical }
	}
	return nil
}

// quorumFlags are the options of --algorithm quorum.
type quorumFlags struct {
	takeover string
	drift    float64
	flags    *pflag.FlagSet
}

func (q *quorumFlags) register(fs *pflag.FlagSet) {
	q.registerTakeover(fs)
	fs.Float64Var(&q.drift, "clock-drift", quorum.DefaultDrift, "`N`, the part by which the rates of two members' clocks may differ, 0 to 0.5 [quorum]")
}

func (q *quorumFlags) registerTakeover(fs *pflag.FlagSet) {
	q.flags = fs
	fs.StringVar(&q.takeover, "takeover", string(quorum.TakeoverAttested), "replace a dead leader by `POLICY`: attested, once its guard attests that it is dead and its work gone; lease, once its lease has ended; refused, once its address refuses connections, unsafe behind filters: no firewall, proxy or other machine may do that in its place [quorum]")
}

// check returns what is wrong with them.
func (q *quorumFlags) check() error {
	if !slices.Contains(quorum.Takeovers(), q.takeover) {
		return cli.Usagef("--takeover %q: use one of %s", q.takeover, strings.Join(quorum.Takeovers(), ", "))
	}
	if !(q.drift >= 0 && q.drift <= 0.5) {
		return cli.Usagef("--clock-drift %v: give a part of 0 to 0.5, such as 0.01", q.drift)
	}
	return nil
}

// ownFlags are the flags that a single algorithm reads.
var ownFlags = map[string]string{"probe": "bully", "takeover": "quorum", "clock-drift": "quorum"}

// guardBy has a guard attest the end of this process, if the takeover is attested: that of the
// command, or where there is none a guard of its own, which the caller must end. What hooks and
// named elections have begun may outlive both, so that nothing is attested then.
func (a *agentRun) guardBy(of batuta.Algorithm) (end func(), err error) {
	q, ok := of.(*quorum.Algorithm)
	end = func() {}
	if err := checkThreads(); err != nil {
		return end, err
	}
	if !ok || q.Takeover() != quorum.TakeoverAttested || a.flags.membership.observer {
		return end, nil
	}
	switch {
	case a.flags.hooks.Config(nil).Any():
		a.guard = unguarded{why: "what its hooks have begun may outlive it"}
	case a.guard == nil && a.job != nil:
		a.guard = unguarded{why: "the commands of named elections may outlive it"}
	case a.guard == nil:
		self, err := runner.Self()
		if err != nil {
			return end, err
		}
		if s, err := runner.NewSentry(self, guardLine(), a.log); err == nil {
			a.guard, end = s, s.Close
		} else {
			a.guard = unguarded{"its guard could not be started: " + err.Error(), a.log}
		}
	}
	quorum.WithGuard(a.guard)(q)
	return end, nil
}

// unguarded is why nothing attests the end of this process.
type unguarded struct {
	why string
	log *slog.Logger // for what is a fault; nil: it is none
}

// Swear implements [attest.Guard].
func (u unguarded) Swear(attest.Oath) {
	if u.log != nil {
		u.log.Warn("no guard attests the end of this process: should it die, the next leader comes when the lease has ended", "why", u.why)
	}
}

// Bars implements [attest.Guard].
func (u unguarded) Bars() string { return u.why }

// unread refuses a flag of a different algorithm, which would have no effect. A file may hold
// its default, as "batuta config show" writes it.
func (q *quorumFlags) unread(algorithm string) error {
	var fault error
	q.flags.VisitAll(func(f *pflag.Flag) {
		of := ownFlags[f.Name]
		if of == "" || of == algorithm || !f.Changed || cli.SourceOf(f) == "file" && f.Value.String() == f.DefValue {
			return
		}
		fault = cmp.Or(fault, cli.Usagef("--%s needs --algorithm %s, and has no effect under %s: leave it out, or give that", f.Name, of, algorithm))
	})
	return fault
}

// newAlgorithm makes the algorithm that the flags name.
func (f *agentFlags) newAlgorithm() (batuta.Algorithm, error) {
	if f.algorithm != "quorum" {
		made, err := newAlgorithm(f.algorithm, f.probe)
		return made, cmp.Or(err, f.quorum.unread(f.algorithm))
	}
	if err := cmp.Or(f.quorum.unread(f.algorithm), f.quorum.check()); err != nil {
		return nil, err
	}
	if f.dataDir == "" {
		return nil, cli.Usagef("--algorithm quorum needs --data-dir: what a member has promised must outlive it; give each member a directory of its own")
	}
	return quorum.New(quorum.Drift(f.quorum.drift), quorum.WithTakeover(quorum.Takeover(f.quorum.takeover))), nil
}

// newAlgorithm makes the algorithm that --algorithm and --probe name.
func newAlgorithm(name, probe string) (batuta.Algorithm, error) {
	a, err := algorithm.New(name, probe)
	if err != nil {
		return nil, cli.Usagef("--%w", err)
	}
	return a, nil
}

// planFlags are when "batuta run" runs its command.
type planFlags struct {
	schedule cronText
	missed   string
}

// cronText is the value of --schedule. An empty value would run the command at once.
type cronText string

// NeverEmpty makes an empty variable an error, too.
func (*cronText) NeverEmpty() {}

// Type implements [pflag.Value].
func (*cronText) Type() string { return "string" }

// String implements [pflag.Value].
func (c *cronText) String() string { return string(*c) }

// Set implements [pflag.Value].
func (c *cronText) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("--schedule is empty: write minute, hour, day of the month, month and day of the week, as in '*/5 * * * *', or leave it out")
	}
	*c = cronText(text)
	return nil
}

func (f *planFlags) register(fs *pflag.FlagSet) {
	fs.Var(&f.schedule, "schedule", "run the command at each time of `CRON`, in UTC: '*/5 * * * *', or 'CRON_TZ=Europe/Madrid 30 4 * * *' (default: run it for as long as this member leads)")
	fs.StringVar(&f.missed, "missed", "run", "if a run fell due without a leader, or during a run, apply `POLICY` run (once, late) or skip")
}

// plan returns their plan, for a member with those flags; nil: there is no schedule.
func (f *planFlags) plan(of *agentFlags, restart bool) (*runner.Plan, error) {
	skips, err := f.skips()
	switch {
	case err != nil:
		return nil, err
	case f.schedule == "":
		return nil, nil
	case restart:
		return nil, cli.Usagef("--restart does not go with --schedule, which starts the command again: leave one out")
	case of.wire.name != "batuta":
		return nil, cli.Usagef("--schedule does not go with --wire %s, which cannot carry scheduled times", of.wire.name)
	}
	ticks, err := scheduleOf(string(f.schedule))
	if err != nil {
		return nil, cli.Usagef("--schedule %w", err)
	}
	p := &runner.Plan{Schedule: ticks, SkipMissed: skips, Meta: of.membership.meta}
	if err := p.Check(); err != nil {
		return nil, cli.Usagef("--schedule: besides --meta, a member publishes its last scheduled time: %w", err)
	}
	return p, nil
}

func scheduleOf(spec string) (schedule.Schedule, error) {
	times, err := batutacron.Parse(spec)
	return schedule.Schedule{Ticks: times}, err
}

// skips reports whether missed ticks are left out.
func (f *planFlags) skips() (bool, error) {
	skips, err := jobs.SkipMissed(f.missed)
	if err != nil {
		return false, cli.Usagef("--missed %q: %w", f.missed, err)
	}
	return skips, nil
}

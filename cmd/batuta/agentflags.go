package main

import (
	"cmp"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
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
	fs.StringSliceVar(&f.members, "member", nil, "`ID=HOST:PORT` of a member, this one included or not; repeatable")
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
	fs.StringSliceVar(&f.httpHosts, "http-host", nil, "`NAME` under which the API may be asked, besides localhost and IP addresses; repeatable")
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
	if f.noPreempt && f.preempt && f.wire.set.Changed("preempt") {
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

// apiNames are the names under which the API may be asked: those given, and the name
// that --http itself has.
func (f *agentFlags) apiNames() []string {
	names := slices.Clone(f.httpHosts)
	for _, addr := range []string{f.http, f.security.httpAdvertise} {
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
		p, err := parseMember("--member", item)
		if err != nil {
			return nil, err
		}
		if earlier, twice := seen[p.ID]; twice && earlier != p.Addr {
			return nil, cli.Usagef("--member %s has both %s and %s; keep one", p.ID, earlier, p.Addr)
		} else if twice {
			continue
		}
		seen[p.ID] = p.Addr
		peers = append(peers, p)
	}
	return peers, nil
}

// parseMember reads ID=HOST:PORT, given as what.
func parseMember(what, item string) (batuta.Peer, error) {
	id, addr, err := cli.Member(what, item)
	return batuta.Peer{ID: id, Addr: addr}, err
}

package batuta

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/clock"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
	"github.com/batuta-dev/batuta/internal/net/discovery"
)

// ErrConfig is wrapped by every error that only a change of the configuration,
// or of what it points at, can correct: a port in use, a damaged data directory. A disk
// that is full, read-only, failing or not permitted, and a lack of open files, are no
// such errors: the same configuration can work later.
var ErrConfig = errors.New("configuration")

// configError is an error about the configuration; its text stands alone.
type configError struct{ error }

func (e configError) Unwrap() []error { return []error{ErrConfig, e.error} }

// config makes an error about the configuration. An error of the machine, such as
// a full disk, stays what it is: the same configuration can work later.
func config(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if datadir.Failed(err) {
		return err
	}
	return configError{err}
}

// Defaults of [Config].
const (
	DefaultCluster  = "default"
	DefaultElection = "default"
	DefaultListen   = "127.0.0.1:7400"
)

// Config sets up a [Node]. The zero value of each field but Algorithm works.
type Config struct {
	Cluster  string // name of the cluster; members of a different cluster are refused; default "default"
	Election string // name of the cluster's own election, which [Node.Lead] and [Node.Leader] are about; default "default"; see [Node.Election] for named elections

	ID        ID     // this member's id; default a UUIDv4, kept in the store if there is one
	Priority  int    // ranks before the id; default 0
	Listen    string // HOST:PORT to listen on; port 0: any free port; default "127.0.0.1:7400"
	Advertise string // HOST:PORT published to the other members; default the listen address as bound, or if that is every address, the local address of a connection to a member that it joins

	Peers     []Peer   // the members, this one included or not, at most 4096 and [election.MaxListBytes]; default only this member. Without Join only [Node.AddMember] adds members
	Join      []string // where members to join through are: HOST:PORT, of a name all its addresses; srv:NAME, its SRV records; file:PATH, HOST:PORT a line; found again at each try, and 5 s after all have answered
	Bootstrap bool     // this member may found a cluster though it has Join and no Peers; a member of that kind without it does not
	Expect    int      // the first election waits until so many members receive from each other; default 0: it does not wait
	// MinMembers lets this member lead only while it receives so many members, itself and observers
	// included; give it to all members alike. A leader that receives fewer for T steps down. Default 0: no such rule.
	// Package quorum has no use for it, and Start refuses it there.
	MinMembers int
	Observer   bool // this member follows and never leads: Lead returns [ErrObserver]. It does not vote in a quorum, and needs Join there
	Witness    bool // this member votes in a quorum and never leads, as the third of two machines that lead; Lead returns [ErrObserver]. Validate refuses it with other algorithms

	// ReapAfter has the leader remove a member that has been down or unreachable for so long
	// under it, so that the list has no dead members; default 0: none, else 4·T or more.
	// It removes none of a fixed list of Peers, which Validate refuses, and none while half
	// of the members or fewer are up, or where fewer than a majority of the most members that
	// there were would be left. Give all members the same.
	ReapAfter time.Duration

	// StandAlways makes this member a candidate whether or not [Node.Lead] runs
	// here. Without it a member is no candidate after its last Lead has returned, so
	// that it does not lead with no work, until Lead or [Node.Campaign] is called. A member on
	// which Lead was never called is a candidate.
	StandAlways bool

	// AwaitReady makes a leadership of this member ready only once its work has called [Node.Ready]: until
	// then [View.Ready] is false at each member that has received the leader's metadata. Default: each leadership is ready as it begins.
	AwaitReady bool

	// Meta is what this member publishes to all members, such as the URL of the service
	// beside it: at most 16 pairs, and 1024 bytes of keys and values together. A key is a
	// letter and then letters, digits, '.', '_' and '-', at most 64 bytes; a value prints.
	// Only the member itself changes it, by [Node.SetMeta]. It is no secret: a client that reads
	// a member's status reads it.
	Meta map[string]string

	Algorithm Algorithm // required; such as bully.New(). A node steps a copy, so many nodes can have one Config; an algorithm without a method Clone is refused while a second node has it
	NoPreempt bool      // a higher-ranked member that returns follows the sitting leader

	// Health is this member's own check. While it fails, the member gives up the lead and is
	// no candidate. Default: none.
	// LeadUnhealthy lets it lead all the same when no member has within 2·T and
	// no healthy member is in reach, until there is such a member.
	Health        Health
	LeadUnhealthy bool

	// Security authenticates members to each other, and encrypts their connections. Default: none,
	// which is for loopback and for networks without other users.
	Security Security

	Heartbeat time.Duration // between two beats of a leader; below T; default 100 ms; this and the next two [MinTime] to [MaxTime]
	TMax      time.Duration // longest transmission of a message; default 150 ms
	TProcess  time.Duration // longest handling of a message; default 300 ms

	DataDir   string       // directory of the state file, created 0700; default "": state dies with the process
	Store     Store        // keeps the state instead of DataDir
	Transport Transport    // default TCP; a Wire only listens with it
	Wire      Wire         // a different protocol, such as boss.New(...); default: batuta's own
	Logger    *slog.Logger // default: nothing is logged; what it does not take in time is dropped, see [Status]

	clocks clock.Source // of tests; nil: the machine's
}

// Validate reports every fault of c at once; each names the field, its value and
// how to mend it, and wraps [ErrConfig]. Start does the same.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, config(format, args...)) }
	if c.Algorithm == nil {
		fault("no algorithm: set Algorithm, for example to bully.New()")
	} else if name := c.Algorithm.Name(); !election.Printable(name, election.MaxID) {
		fault("algorithm name %.64q: members send it to each other, so it must be printable and take at most %d bytes", name, election.MaxID)
	}
	for _, name := range []struct{ field, value string }{{"cluster", c.Cluster}, {"election", c.Election}} {
		if len(name.value) > election.MaxID {
			fault("%s name of %d bytes is too long: at most %d", name.field, len(name.value), election.MaxID)
		} else if !election.Printable(name.value, election.MaxID) {
			fault("%s name %q holds what does not print: leave out control characters and marks", name.field, name.value)
		}
	}
	faults = append(faults, c.checkTiming()...)
	faults = append(faults, c.checkAlgorithm()...)
	faults = append(faults, c.checkAddresses()...)
	if err := c.checkFounding(); err != nil {
		faults = append(faults, err)
	}
	switch least := 4 * c.timing().T(); {
	case c.ReapAfter == 0:
	case c.ReapAfter < least:
		fault("reap after %v: give 4·T or more, here %v, so that a member may start again meanwhile; or 0 for never", c.ReapAfter, least)
	case c.closed():
		fault("reap after %v: the list of members is fixed, and only a user removes members of it: leave it out, or give addresses to join through too", c.ReapAfter)
	case c.Wire != nil:
		fault("reap after %v: the wire removes no members: leave it out", c.ReapAfter)
	}
	if c.ID != "" {
		if _, err := election.ParseID(string(c.ID)); err != nil {
			fault("this member's %w", err)
		}
	}
	faults = append(faults, c.Health.faults()...)
	if c.Wire != nil {
		faults = append(faults, c.checkWire()...)
	}
	if err := c.checkMeta(c.Meta); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, c.checkSecurity()...)
	return errors.Join(append(faults, c.checkMembers()...)...)
}

func (c Config) withDefaults() Config {
	if c.Wire != nil {
		c = c.Wire.Defaults(c)
	}
	c.Cluster = cmp.Or(c.Cluster, DefaultCluster)
	c.Election = cmp.Or(c.Election, DefaultElection)
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	c.Heartbeat = cmp.Or(c.Heartbeat, election.DefaultHeartbeat)
	c.TMax = cmp.Or(c.TMax, election.DefaultTMax)
	c.TProcess = cmp.Or(c.TProcess, election.DefaultTProcess)
	if c.Transport == nil {
		c.Transport = TCP{}
	}
	if c.clocks == nil {
		c.clocks = clock.System()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if id, err := election.ParseID(string(c.ID)); err == nil {
		c.ID = id
	}
	c.Meta, c.Peers = maps.Clone(c.Meta), slices.Clone(c.Peers)
	c.Observer = c.Observer || c.Witness
	if c.AwaitReady {
		c.Meta = withReady(c.Meta, "0")
	}
	for i, p := range c.Peers {
		if id, err := election.ParseID(string(p.ID)); err == nil {
			c.Peers[i].ID = id
		}
	}
	return c
}

// member is p's entry on a list.
func (p Peer) member() election.Member {
	return election.Member{Rank: Rank{Priority: p.Priority, ID: p.ID}, Address: p.Addr}
}

func (c Config) members() (list []election.Member) {
	for _, p := range c.Peers {
		list = append(list, p.member())
	}
	return list
}

func (c Config) timing() election.Timing {
	t := election.Timing{Heartbeat: c.Heartbeat, TMax: c.TMax, TProcess: c.TProcess, Secured: c.Security.options().On()}
	if c.Wire != nil {
		t.Silence = max(c.Wire.Silence(), t.T())
	}
	return t
}

// Bounds of Heartbeat, TMax and TProcess in [Config]. A loop whose timers are due before it has begun to wait does nothing
// else, Close included; and sums of times must not overflow.
const (
	MinTime = time.Millisecond
	MaxTime = 24 * time.Hour
)

func (c Config) checkTiming() (faults []error) {
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"heartbeat", c.Heartbeat}, {"t-max", c.TMax}, {"t-process", c.TProcess}} {
		switch {
		case d.value < 0:
			faults = append(faults, config("%s %v is negative: give a time above zero", d.field, d.value))
		case d.value < MinTime, d.value > MaxTime:
			faults = append(faults, config("%s %v: give %v to %v, such as 100ms", d.field, d.value, MinTime, MaxTime))
		}
	}
	if t := c.timing().T(); len(faults) == 0 && c.Heartbeat >= t {
		faults = append(faults, config("heartbeat %v is not below T = 2·t_max + t_process = %v: lower it, or raise t-max (%v) or t-process (%v)", c.Heartbeat, t, c.TMax, c.TProcess))
	}
	return faults
}

func (c Config) checkAddresses() (faults []error) {
	if err := checkAddress(c.Listen, true); err != nil {
		faults = append(faults, config("listen address %q: %w", c.Listen, err))
	}
	for _, addr := range c.Join {
		if err := discovery.Check(addr); err != nil {
			faults = append(faults, config("address to join through %q: %w", addr, err))
		}
	}
	if err := c.checkReach(); err != nil {
		faults = append(faults, err)
	}
	if c.Advertise == "" {
		return faults
	}
	if err := checkAddress(c.Advertise, false); err != nil {
		faults = append(faults, config("advertised address %q: %w", c.Advertise, err))
	} else if everywhere(c.Advertise) {
		faults = append(faults, config("advertised address %q is every address of a machine: give the one where the others reach this member", c.Advertise))
	}
	return faults
}

// checkAddress is for the address of a member; its own may stand for any port.
func checkAddress(addr string, own bool) error {
	if own {
		return election.CheckListen(addr)
	}
	return election.CheckAddress(addr)
}

// checkMembers finds what is wrong with the list, and with this member in it.
func (c Config) checkMembers() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, config(format, args...)) }
	size := 0
	for _, m := range c.members() {
		size += m.Size()
	}
	if len(c.Peers) > election.MaxMembers || size > election.MaxListBytes {
		fault("%d members of %d bytes: %w", len(c.Peers), size, election.ErrFull)
	}
	ids, addresses := map[ID]bool{}, map[string]ID{}
	first := c.ID
	for _, m := range c.members() {
		if _, err := election.ParseID(string(m.ID)); err != nil {
			fault("member list: %w", err)
			continue
		}
		if ids[m.ID] {
			fault("member %s is in the list twice: give each member its own id", m.ID)
		}
		ids[m.ID] = true
		if first == election.None {
			first = m.ID
		}
		if m.ID.Kind() != first.Kind() {
			fault("id %s is of another kind (%v) than %s (%v): all ids of a cluster must be of one kind", m.ID, m.ID.Kind(), first, first.Kind())
		}
		if err := checkAddress(m.Address, m.ID == c.ID); err != nil {
			fault("address %q of member %s: %w", m.Address, m.ID, err)
			continue
		}
		if m.ID != c.ID && everywhere(m.Address) {
			fault("address %q of member %s is every address of a machine: give the one where that member is reached", m.Address, m.ID)
			continue
		}
		if other, taken := addresses[plainAddress(m.Address)]; taken {
			fault("members %s and %s have one address %s: give each its own", other, m.ID, m.Address)
		}
		addresses[plainAddress(m.Address)] = m.ID
		if m.ID != c.ID && c.isOwn(m.Address) {
			fault("address %s of member %s is this member's own (id %s): correct the member list, or this member's id", m.Address, m.ID, cmp.Or(c.ID, "not given"))
		}
	}
	return faults
}

// closed reports whether the list of members is fixed: it has other members, and no member is
// joined.
func (c Config) closed() bool {
	return len(c.Join) == 0 && slices.ContainsFunc(c.Peers, func(p Peer) bool { return p.ID != c.ID })
}

// isOwn reports whether addr is where this member listens.
func (c Config) isOwn(addr string) bool {
	addr = plainAddress(addr)
	if addr == plainAddress(c.Listen) || c.Advertise != "" && addr == plainAddress(c.Advertise) {
		return true
	}
	host, port, errListen := net.SplitHostPort(c.Listen)
	to, toPort, err := net.SplitHostPort(addr)
	if errListen != nil || err != nil || port != toPort {
		return false
	}
	a, errAddr := netip.ParseAddr(to)
	any, errAny := netip.ParseAddr(host)
	everywhere := host == "" || errAny == nil && any.IsUnspecified()
	return everywhere && errAddr == nil && a.IsLoopback()
}

// plainAddress returns an address of this machine in a single form.
func plainAddress(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return net.JoinHostPort(host, port)
}

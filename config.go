package batuta

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/clock"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
	"github.com/batuta-dev/batuta/internal/net/discovery"
	"github.com/batuta-dev/batuta/internal/net/security"
)

// ErrConfig is wrapped by every error that only a change of the configuration,
// or of what it points at, can correct: a port in use, a damaged data directory. A disk
// that is full, read-only, failing or not permitted, a lack of open files, and an address that this machine does
// not have yet, are no such errors: the same configuration can work later.
var ErrConfig = errors.New("configuration")

// configError is an error about the configuration; its text stands alone.
type configError struct{ error }

func (e configError) Unwrap() []error { return []error{ErrConfig, e.error} }

// config makes an error about the configuration. An error of the machine, such as
// a full disk, or of Security.Secrets stays what it is: the same configuration can work later.
func config(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if datadir.Failed(err) || errors.Is(err, security.ErrSecrets) {
		return err
	}
	return configError{err}
}

// parseID is [election.ParseID] of an argument.
func parseID(id ID) (ID, error) {
	parsed, err := election.ParseID(string(id))
	if err != nil {
		return parsed, config("%w", err)
	}
	return parsed, nil
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
	Bootstrap bool     // this member may found a cluster though it has Join and no Peers; a member of that kind without it does not. Package quorum refuses it, and Expect
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

	// Health is this member's own check. While it fails, the member gives up leadership and is
	// no candidate. Default: none.
	// LeadUnhealthy lets it lead all the same when no member has within 2·T and
	// no healthy member is in reach, until there is such a member.
	Health        Health
	LeadUnhealthy bool

	// Security authenticates members to each other, and encrypts their connections. Default: none,
	// which is for loopback and for networks without other users.
	Security Security

	Heartbeat time.Duration // between two heartbeats of a leader; below T; default 100 ms; this and the next two [MinTime] to [MaxTime]
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
// how to fix it, and wraps [ErrConfig]. Start does the same.
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
	faults = append(faults, c.checkFounding(), c.checkMeta(c.Meta), c.checkSecurity())
	switch least := 4 * c.timing().T(); {
	case c.ReapAfter == 0:
	case c.ReapAfter < least:
		fault("Config.ReapAfter %v: give 4·T or more, here %v, so that a member may start again meanwhile; or 0 for never", c.ReapAfter, least)
	case c.closed():
		fault("Config.ReapAfter %v: the list of members is fixed, and only a user removes members of it: leave it out, or give addresses to join through too", c.ReapAfter)
	case c.Wire != nil:
		fault("Config.ReapAfter %v: the wire removes no members: leave it out", c.ReapAfter)
	}
	if c.ID != "" {
		if _, err := election.ParseID(string(c.ID)); err != nil {
			fault("this member's %w", err)
		}
	}
	faults = append(faults, c.Health.faults()...)
	if c.Wire != nil {
		if err := c.Wire.Check(c); err != nil {
			fault("%w", err)
		}
	}
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
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
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
	if err := election.CheckListen(c.Listen); err != nil {
		faults = append(faults, config("listen address %q: %w", c.Listen, err))
	}
	for _, addr := range c.Join {
		if err := discovery.Check(addr); err != nil {
			faults = append(faults, config("address to join through %q: %w", addr, err))
		}
	}
	if faults = append(faults, c.checkReach()); c.Advertise == "" {
		return faults
	}
	if err := election.CheckAddress(c.Advertise); err != nil {
		faults = append(faults, config("advertised address %q: %w", c.Advertise, err))
	} else if everywhere(c.Advertise) {
		faults = append(faults, config("advertised address %q is every address of a machine: give the one where the others reach this member", c.Advertise))
	}
	return faults
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
		first = cmp.Or(first, m.ID)
		if m.ID.Kind() != first.Kind() {
			fault("id %s is of another kind (%v) than %s (%v): all ids of a cluster must be of one kind", m.ID, m.ID.Kind(), first, first.Kind())
		}
		check := election.CheckAddress
		if m.ID == c.ID { // its own may mean any port
			check = election.CheckListen
		}
		if err := check(m.Address); err != nil {
			fault("address %q of member %s: %w", m.Address, m.ID, err)
			continue
		}
		if m.ID != c.ID && everywhere(m.Address) {
			faults = append(faults, everyAddress(m.Address, m.ID))
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
	_, port, errListen := net.SplitHostPort(c.Listen)
	to, toPort, err := net.SplitHostPort(addr)
	if errListen != nil || err != nil || port != toPort {
		return false
	}
	a, errAddr := netip.ParseAddr(to)
	return everywhere(c.Listen) && errAddr == nil && a.IsLoopback()
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

// Health is how a node checks by itself whether it is fit to lead. Without Check there is no such
// check, and a service reports its health by [Node.SetHealth].
//
// A node counts as unhealthy until Rise checks have succeeded. A check that does not return within
// Timeout has failed; the next begins only once it has returned. A panic of Check
// ends the process, as in any goroutine, and names the member. Another member then leads.
type Health struct {
	Check   func(ctx context.Context) error // why this member is not fit to lead; nil: it is. ctx ends after Timeout
	Every   time.Duration                   // between the end of a check and the next; default 1 s, at least [MinTime]
	Timeout time.Duration                   // default 1 s, at least [MinTime]
	Rise    int                             // checks in a row that succeed until the member is healthy; default 1
	Fall    int                             // checks in a row that fail until it is unhealthy; default 1
}

// withDefaults fills in what is not given.
func (h Health) withDefaults() Health {
	h.Every, h.Timeout = cmp.Or(h.Every, time.Second), cmp.Or(h.Timeout, time.Second)
	h.Rise, h.Fall = cmp.Or(h.Rise, 1), cmp.Or(h.Fall, 1)
	return h
}

// faults are what is wrong with it.
func (h Health) faults() (faults []error) {
	if h.Check == nil && (h.Every != 0 || h.Timeout != 0 || h.Rise != 0 || h.Fall != 0) {
		faults = append(faults, config("Health without Check: set Check, or leave Every, Timeout, Rise and Fall out"))
	}
	h = h.withDefaults()
	if h.Every < MinTime || h.Every > MaxTime || h.Timeout < MinTime || h.Timeout > MaxTime {
		faults = append(faults, config("Health.Every %v, Timeout %v: give %v to %v for each", h.Every, h.Timeout, MinTime, MaxTime))
	}
	if h.Rise < 1 || h.Fall < 1 {
		faults = append(faults, config("Health.Rise %d, Fall %d: give 1 or more checks in a row for each", h.Rise, h.Fall))
	}
	return faults
}

// checkMeta returns what is wrong with metadata.
func (c Config) checkMeta(pairs map[string]string) error {
	if c.AwaitReady {
		pairs = withReady(pairs, strconv.FormatUint(math.MaxUint64, 10))
	} else if _, taken := pairs[readyKey]; taken {
		return config("meta: key %s is batuta's own: set AwaitReady, and call Ready", readyKey)
	}
	if err := election.CheckMeta(pairs); err != nil {
		return config("meta: %w", err)
	}
	if len(pairs) > 0 && c.Wire != nil {
		return config("meta: only batuta's own protocol carries the metadata of a member: leave out Wire, or Meta and AwaitReady")
	}
	return nil
}

// readyKey is the metadata key of a member with [Config.AwaitReady]. Its value is the epoch of its latest leadership that is ready.
const readyKey = "batuta.ready"

func withReady(pairs map[string]string, epoch string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, pairs)
	all[readyKey] = epoch
	return all
}

// promises is what a guarantees, and whether the epoch of its tokens is a fence.
func promises(a Algorithm) (guarantee string, fencing bool) {
	if p, ok := a.(interface{ Promises() (string, bool) }); ok {
		return p.Promises()
	}
	return GuaranteeBestEffort, false
}

// durable reports whether an algorithm keeps no promise without a disk.
func durable(a Algorithm) bool {
	d, ok := a.(interface{ Durable() bool })
	return ok && d.Durable()
}

// checkAlgorithm asks the algorithm what is wrong with its options, and whether it has
// the disk that it needs.
func (c Config) checkAlgorithm() (faults []error) {
	if v, ok := c.Algorithm.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			faults = append(faults, config("%w", err))
		}
	}
	if durable(c.Algorithm) && c.DataDir == "" {
		faults = append(faults, config("no data directory: algorithm %s keeps its promise only if all that it has sent is on disk; set one that no other member uses", c.Algorithm.Name()))
	}
	if durable(c.Algorithm) && c.Wire != nil {
		faults = append(faults, config("algorithm %s does not go with another wire", c.Algorithm.Name()))
	}
	return faults
}

// Security is how members authenticate to each other. With either proof they
// speak TLS 1.3, both ends verified. The zero value is no security: any client that reaches a
// member's port may pose as a member.
//
// All members must have the same; both a secret and certificates are believed while both
// are given, and Plain lets in members that have neither, so that a running cluster can
// change from secrets to certificates member by member (docs/security.md).
type Security struct {
	// SecretFile names a file with the cluster's secret, as "batuta secret new" prints it.
	// A process that has it may be any member. A second line may hold a second secret, which is
	// believed too; the first is preferred.
	SecretFile string

	// Secrets gives the secrets instead of SecretFile, from an environment variable or a store
	// such as Vault: each as "batuta secret new" prints it, at most 4, the preferred first.
	// Start and New call it, then the node every 5 s, and [Node.Reload]; a node never twice at
	// once. If a call is costly, cache its result. Validate does not call it.
	// Secrets that differ from the last replace them without a restart: have all members accept
	// both the old and the new secret before any member gives only the new.
	// ctx ends after 5 s, or with the node. An error, or no return by then, fails the start, which can be
	// tried again. Later it is logged, and the secrets that were given before stay in use.
	Secrets func(ctx context.Context) ([][]byte, error)

	// CertFile and KeyFile name this member's certificate and its key, CAFile the
	// authorities to trust, all in PEM form. A certificate must
	// name the member: by the URI batuta://CLUSTER/ID, or else by a DNS name or an IP
	// address that is the id. It must be good for servers and for clients.
	CertFile, KeyFile, CAFile string

	// TLS brings a service's own certificates instead of files, such as those of a SPIFFE
	// source: Certificates, or GetCertificate and GetClientCertificate, are shown;
	// RootCAs, VerifyPeerCertificate and VerifyConnection decide which peers are trusted. They must
	// name the member as those in files do.
	TLS *tls.Config

	// IDTemplate is a URI that certificates must have instead, in which {cluster} and
	// {id} are replaced: spiffe://example.org/batuta/{cluster}/{id}.
	IDTemplate string

	// Plain lets in members without TLS, and dials those that do not speak it as they
	// are: no security at all, for the time of a change.
	Plain bool
}

// CertificateLife is how long a certificate is good: the zero value where there is none.
type CertificateLife struct{ From, To time.Time }

// options are what s comes to.
func (s Security) options() security.Options {
	o := security.Options{SecretFile: s.SecretFile, CertFile: s.CertFile, KeyFile: s.KeyFile, CAFile: s.CAFile,
		TLS: s.TLS, IDTemplate: s.IDTemplate, Plain: s.Plain}
	if s.Secrets != nil {
		var b bounded[[][]byte]
		o.Secrets = func(ctx context.Context) ([][]byte, error) {
			return b.call(ctx, "the function", secretsTimeout, s.Secrets)
		}
	}
	return o
}

// checkSecurity finds what is wrong with the files of Security.
func (c Config) checkSecurity() error {
	o := c.Security.options()
	if c.Wire != nil && o.On() {
		return config("security: this wire has no encryption in its protocol: leave Security out, and let only members reach its port")
	}
	if err := o.Check(c.Cluster, string(c.ID)); err != nil {
		return config("security: %w", err)
	}
	return nil
}

// newcomer reports whether this member has addresses to ask and no list of members:
// it founds no cluster then, unless Bootstrap is set.
func (c Config) newcomer() bool {
	listed := slices.ContainsFunc(c.Peers, func(p Peer) bool { return p.ID != c.ID })
	return len(c.Join) > 0 && !listed && !c.Bootstrap && c.Wire == nil
}

// checkFounding returns settings that contradict each other, or can never come true.
func (c Config) checkFounding() error {
	count := len(c.Peers)
	if !slices.ContainsFunc(c.Peers, func(p Peer) bool { return p.ID == c.ID }) {
		count++
	}
	_, own := c.Algorithm.(machine.CoreMaker)
	switch {
	case own && (c.Bootstrap || c.Expect > 0):
		return config("bootstrap and expect: algorithm %s creates a cluster only from its list of members; name them all, the same everywhere, or start the first with itself as the only one, and have the others join it", c.Algorithm.Name())
	case c.Witness && !own:
		return config("witness: algorithm %s has no votes: leave it out, or use quorum; Config.Observer follows and never leads", c.Algorithm.Name())
	case c.Witness && count < 2 && len(c.Join) == 0:
		return config("witness: it never leads, and no other member is named: set Config.Peers to the first list of all members, or Config.Join to one of them")
	case c.Observer && !c.Witness && own && len(c.Join) == 0:
		return config("observer: it does not vote, and each member of the first list of a quorum does: set Config.Join to the members that it follows; a witness votes and never leads")
	case c.MinMembers != 0 && (own || c.Wire != nil):
		return config("Config.MinMembers %d: algorithm %s, or the protocol of Wire, has no such rule; leave it out (a quorum has no leader without a majority)", c.MinMembers, c.Algorithm.Name())
	case c.MinMembers < 0 || c.MinMembers > election.MaxMembers:
		return config("Config.MinMembers %d: give 1 to %d, or leave it out", c.MinMembers, election.MaxMembers)
	case c.MinMembers > count && len(c.Peers) > 0 && len(c.Join) == 0:
		return config("Config.MinMembers %d, and the list has %d: no member would ever lead; lower it, or correct the list", c.MinMembers, count)
	case c.Expect < 0 || c.Expect > election.MaxMembers:
		return config("Config.Expect %d: give 1 to %d, or leave it out", c.Expect, election.MaxMembers)
	case c.Bootstrap && c.Expect > 1:
		return config("bootstrap founds a cluster at once, and expect %d awaits others first: leave one of them out", c.Expect)
	case c.Bootstrap && c.Observer:
		return config("bootstrap: an observer never leads, and so founds nothing: leave one of them out")
	case c.Expect > count && len(c.Peers) > 0 && len(c.Join) == 0:
		return config("expect %d members, and the list has %d: lower it, or correct the list", c.Expect, count)
	}
	return nil
}

// checkReach returns the fault of a member whose address no member could reach.
func (c Config) checkReach() error {
	if c.Wire != nil || c.Advertise != "" || !everywhere(c.Listen) || len(c.Join) > 0 {
		return nil
	}
	if slices.ContainsFunc(c.Peers, func(p Peer) bool { return p.ID != c.ID || !everywhere(p.Addr) }) {
		return nil
	}
	return config("listen address %q is every address of this machine, and no other member is named that could report which of them it reaches: set Config.Advertise to HOST:PORT, or listen on one address", c.Listen)
}

// everywhere reports whether to listen on addr is to listen on every address of the
// machine: no member elsewhere reaches that.
func everywhere(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// everyAddress is the error of such an address on the list.
func everyAddress(addr string, id ID) error {
	return config("address %q of member %s is every address of a machine: give the one where that member is reached", addr, id)
}

// elsewhere reports that two addresses are plainly different: their ports differ, or their
// hosts are two IP addresses. A name is not looked up.
func elsewhere(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil {
		return false
	}
	ipA, errA := netip.ParseAddr(hostA)
	ipB, errB := netip.ParseAddr(hostB)
	return portA != portB || errA == nil && errB == nil && ipA.Unmap() != ipB.Unmap()
}

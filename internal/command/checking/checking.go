// Package checking finds what is wrong with a cluster's configuration: at each member that it
// names, as the wire answers, and on this machine. It takes no part in an election.
package checking

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
	"github.com/batuta-dev/batuta/internal/disk/logfile"
	"github.com/batuta-dev/batuta/internal/disk/statefile"
	"github.com/batuta-dev/batuta/internal/net/discovery"
	"github.com/batuta-dev/batuta/internal/net/security"
)

// Long is the help text of "batuta check".
const Long = `check reads flags, environment and --config file as "batuta agent" does, asks each
member that they name, and prints one line for each finding. It works before the agents
start, and while they run: it is no member, and changes nothing.

Of each member it finds a name that does not resolve, a port that refuses or drops, a
different id, cluster, secret, certificate, algorithm, t-max, t-process or release, a
certificate that ends within 14 days, and a list that does not have this machine's member.
The clock of each machine is in its answer; a second of difference is a fault. The best of
three round trips is compared with t-max.
Of this machine it finds a listen address that it does not have, the permissions of the
secret and of the data directory, a data directory of another member or cluster or with
damaged files, and how long a small write there takes to be safe.

With --json it prints one object: "ok", and "findings" with "ok", "kind", "member", "where",
"what" and "do" of each. docs/reference-config.md describes these keys.

It ends with exit code 1 when there is a fault, with 2 when the configuration is wrong.`

// Plan is a member's configuration, and how it is checked.
type Plan struct {
	Cluster, Election, Algorithm string

	ID                election.ID // of this member; "": not known yet
	Listen, Advertise string
	Members           []Target
	Join              []string
	Timing            election.Timing
	Security          security.Options
	DataDir           string // "": none
	DialOnly          bool   // members have a wire of their own, which has no question

	Limit time.Duration // for the answer of a member
	JSON  bool
}

// Target is where a member is to be.
type Target struct {
	ID   election.ID // "": any
	Addr string      // HOST:PORT
}

// Finding is a thing that is well, or a fault with what to do about it.
type Finding struct {
	OK     bool   `json:"ok"`
	Kind   string `json:"kind"`             // what was checked; docs/reference-config.md has all kinds
	Member string `json:"member,omitempty"` // the id
	Where  string `json:"where"`            // an address or a path
	What   string `json:"what"`
	Do     string `json:"do,omitempty"` // of a fault
}

// Run checks all, and prints the findings to out. It fails with exit code 1 if there is a fault.
func Run(ctx context.Context, p Plan, out io.Writer) error {
	found := slices.Concat(p.members(ctx), p.addresses(), p.disk())
	faults := 0
	for _, f := range found {
		if !f.OK {
			faults++
		}
	}
	if err := p.print(out, found, faults); err != nil {
		return err
	}
	if faults > 0 {
		return cli.Exit(cli.Failed, fmt.Errorf("faults: %d of %d findings", faults, len(found)))
	}
	return nil
}

func (p *Plan) print(out io.Writer, found []Finding, faults int) error {
	if p.JSON {
		return json.NewEncoder(out).Encode(map[string]any{"ok": faults == 0, "findings": found})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RESULT\tMEMBER\tWHERE\tFINDING")
	for _, f := range found {
		result, text := "ok", f.What
		if !f.OK {
			result, text = "FAULT", f.What+": "+f.Do
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", result, election.Shown(cmp.Or(f.Member, "-")), f.Where, election.Shown(text))
	}
	return table.Flush()
}

// atOnce is how many members are asked at a time.
const atOnce = 64

// members asks each member, in the order of the list.
func (p *Plan) members(ctx context.Context) (found []Finding) {
	by, fault := security.New(context.Background(), p.Cluster, string(p.ID), p.Security)
	if fault != nil {
		found = append(found, Finding{Kind: "security", Member: string(p.ID), Where: "this machine", What: fault.Error(),
			Do: "then check again, as members were only dialed"})
	} else if life := by.Life().Certificate; ending(life) {
		found = append(found, p.endingSoon(string(p.ID), p.Security.CertFile, life))
	}
	targets := p.targets()
	for _, source := range p.Join {
		limited, cancel := context.WithTimeout(ctx, p.Limit)
		addrs, err := discovery.Expand(limited, source)
		cancel()
		if err != nil {
			found = append(found, Finding{Kind: "join", Where: source, What: err.Error(), Do: "correct the file, the records or --join"})
		}
		for _, addr := range addrs {
			targets = append(targets, Target{Addr: addr})
		}
	}
	each := make([][]Finding, len(targets))
	free := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, t := range targets {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			a := asked{plan: p, Target: t, by: by, dialOnly: p.DialOnly || fault != nil}
			each[i] = a.check(ctx)
		})
	}
	all.Wait()
	return append(found, slices.Concat(each...)...)
}

// targets are the members of the list, and that of this machine.
func (p *Plan) targets() (all []Target) {
	own := p.ID == election.None
	for _, t := range p.Members {
		own = own || t.ID == p.ID
		all = append(all, t)
	}
	if at := p.own(); !own && at != "" {
		all = append([]Target{{p.ID, at}}, all...)
	}
	return all
}

// own is the address at which members reach this member; "": that is settled when it starts.
func (p *Plan) own() string {
	for _, t := range p.Members {
		if t.ID == p.ID && p.ID != election.None {
			return t.Addr
		}
	}
	if p.Advertise != "" {
		return p.Advertise
	}
	host, port, err := net.SplitHostPort(p.Listen)
	ip, noIP := netip.ParseAddr(host)
	if err != nil || port == "0" || host == "" || noIP == nil && ip.IsUnspecified() {
		return ""
	}
	return p.Listen
}

// addresses finds a listen address that this machine does not have, or that is not reachable
// from outside.
func (p *Plan) addresses() []Finding {
	host, _, err := net.SplitHostPort(p.Listen)
	if err != nil || host == "" {
		return nil
	}
	fault := func(what, do string) []Finding {
		return []Finding{{Kind: "listen", Member: string(p.ID), Where: p.Listen, What: what, Do: do}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.Limit)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return fault(fmt.Sprintf("the name to listen at does not resolve (%v)", err), "give --listen an address of this machine")
	}
	here := local()
	if i := slices.IndexFunc(ips, func(ip netip.Addr) bool { return ip.Unmap().IsUnspecified() || here[ip.Unmap()] }); i < 0 {
		return fault("this machine does not have the address", "run the check on the member's own machine, or correct --listen and the member list")
	}
	away := slices.IndexFunc(p.Members, func(t Target) bool { return t.ID != p.ID && !api.Loopback(t.Addr) })
	if p.Advertise == "" && ips[0].Unmap().IsLoopback() && away >= 0 {
		return fault("no other machine reaches this member on loopback, and member "+string(p.Members[away].ID)+" is elsewhere", "give --listen the address of this machine in that network")
	}
	return nil
}

// local are the addresses of this machine.
func local() map[netip.Addr]bool {
	here := map[netip.Addr]bool{}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return here
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				here[ip.Unmap()] = true
			}
		}
	}
	return here
}

// Of the disk. What a member keeps is small; a log of quorum and its replacement have room in this.
const (
	leastSpace = 64 << 20
	syncs      = 5

	// While the agent writes its log, a look can see an append in part.
	looks     = 3
	lookAgain = 100 * time.Millisecond
)

// disk finds what would keep a member from its data directory, or from answering in time.
func (p *Plan) disk() []Finding {
	if p.DataDir == "" {
		return []Finding{{OK: true, Kind: "disk", Member: string(p.ID), Where: "this machine", What: "no --data-dir: the state ends with the process"}}
	}
	at := Finding{Kind: "disk", Member: string(p.ID), Where: p.DataDir}
	var held []Finding
	fault := func(kind, what, do string) []Finding {
		at.Kind, at.What, at.Do = kind, what, do
		return append(held, at)
	}
	dir, fresh, err := existing(p.DataDir)
	if err != nil {
		return fault("permission", err.Error(), "give a --data-dir that can be created")
	}
	if !fresh {
		if owner, foreign := datadir.Owner(dir); foreign && os.Geteuid() == 0 {
			return fault("permission", fmt.Sprintf("the directory belongs to user %d, and this check runs as root", owner), fmt.Sprintf("check as that user: sudo -u '#%d' batuta check", owner))
		}
		if err := datadir.CheckAccess(dir); err != nil {
			return fault("permission", "the directory "+err.Error(), "then check again")
		}
	}
	if !fresh {
		held = p.held()
	}
	took, err := syncTime(dir)
	switch free := freeSpace(dir); {
	case errors.Is(err, fs.ErrPermission):
		return fault("permission", fmt.Sprintf("this user (%d) may not write in %s", os.Geteuid(), dir), "check as the user that the agent runs as, or make the directory with: install -d -m 700 -o USER "+p.DataDir)
	case err != nil:
		return fault("disk", fmt.Sprintf("nothing can be saved there (%v)", datadir.Remedy(err)), "then check again")
	case room*took > p.Timing.TProcess:
		return fault("disk", fmt.Sprintf("a write takes %v to be safe, and --t-process %v is less than %d times that", took.Round(100*time.Microsecond), p.Timing.TProcess, room),
			fmt.Sprintf("use a faster disk, or give all members --t-process %v or more", upTo(room*took)))
	case free >= 0 && free < leastSpace:
		return fault("space", fmt.Sprintf("%d MiB are free", free>>20), fmt.Sprintf("make room: %d MiB or more", leastSpace>>20))
	case free >= 0:
		at.What = fmt.Sprintf("a write is safe after %v; %d MiB are free", took.Round(10*time.Microsecond), free>>20)
	default:
		at.What = fmt.Sprintf("a write is safe after %v", took.Round(10*time.Microsecond))
	}
	if at.OK = true; fresh {
		at.What += "; the directory is created at the first start"
	}
	return append(held, at)
}

// held finds what keeps this member from starting on what is in its data directory.
func (p *Plan) held() (found []Finding) {
	fault := func(what, do string) {
		found = append(found, Finding{Kind: "state", Member: string(p.ID), Where: p.DataDir, What: what, Do: do})
	}
	id, cluster, err := statefile.Inspect(p.DataDir)
	switch {
	case err != nil:
		fault(err.Error(), "then check again")
	case cluster != "" && cluster != p.Cluster:
		fault(fmt.Sprintf("the directory belongs to cluster %s, and this is cluster %s", cluster, p.Cluster), "give each cluster its own --data-dir, or correct --cluster")
	case id != election.None && p.ID != election.None && id != p.ID:
		fault(fmt.Sprintf("the directory belongs to member %s, and this is member %s", id, p.ID), "give each member its own --data-dir, or correct --id")
	}
	if p.Algorithm != "quorum" {
		return found
	}
	for range looks {
		if err = logfile.Inspect(p.DataDir); err == nil {
			return found
		}
		time.Sleep(lookAgain)
	}
	fault(err.Error(), "then check again")
	return found
}

// existing is dir, or the directory in which it will be created.
func existing(dir string) (at string, fresh bool, err error) {
	at, err = filepath.Abs(dir)
	for err == nil {
		var info fs.FileInfo
		info, err = os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			return "", false, fmt.Errorf("%s is no directory", at)
		case err == nil || !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at):
			return at, fresh, err
		}
		at, fresh, err = filepath.Dir(at), true, nil
	}
	return at, fresh, err
}

// syncTime is how long it takes until a small write survives a power cut: the median.
func syncTime(dir string) (median time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".batuta-check-")
	if err != nil {
		return 0, err
	}
	defer func() { err = cmp.Or(err, errors.Join(f.Close(), os.Remove(f.Name()))) }()
	var times []time.Duration
	for i := range syncs {
		began := time.Now()
		if err := datadir.Write(f, make([]byte, 512), int64(512*i)); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times[syncs/2], nil
}

package checking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
)

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

// machine checks this machine.
func (p *Plan) machine() []Finding {
	return slices.Concat(p.addresses(), p.disk())
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
)

// disk finds what would keep a member from its data directory, or from answering in time.
func (p *Plan) disk() []Finding {
	if p.DataDir == "" {
		return []Finding{{OK: true, Kind: "disk", Member: string(p.ID), Where: "this machine", What: "no --data-dir: the state ends with the process"}}
	}
	at := Finding{Kind: "disk", Member: string(p.ID), Where: p.DataDir}
	fault := func(kind, what, do string) []Finding {
		at.Kind, at.What, at.Do = kind, what, do
		return []Finding{at}
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
	return []Finding{at}
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

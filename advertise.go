package batuta

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// This file finds the address that a member which listens everywhere tells the others.

// everywhere reports whether to listen on addr is to listen on every address of the
// machine: nobody else can be told that.
func everywhere(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// settleAddress sets what this member tells the others before anybody hears of it. It
// stays open while no member can be told apart from nowhere: see locate.
func (n *Node) settleAddress(saved []election.Member) {
	switch {
	case n.cfg.Advertise != "":
		return
	case n.cfg.Wire != nil || !everywhere(n.addr):
		n.cfg.Advertise = n.addr
		for _, p := range n.cfg.Peers {
			if p.ID == n.id && elsewhere(p.Addr, n.addr) {
				n.cfg.Logger.Warn("the member list has this member where it does not listen, and the others dial it there: correct the list, or give --advertise if that leads here", "list", p.Addr, "listen", n.addr)
			}
		}
		return
	}
	for _, p := range n.cfg.Peers {
		if p.ID == n.id && !everywhere(p.Addr) {
			n.cfg.Advertise = p.Addr
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	if n.cfg.Advertise = n.route(n.contacts(ctx)); n.cfg.Advertise != "" {
		return
	}
	for _, e := range saved {
		if e.ID == n.id {
			n.cfg.Advertise = e.Address
		}
	}
}

// elsewhere reports that two addresses are plainly not one: their ports differ, or their
// hosts are two IP addresses. What a name stands for is not looked up.
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

// contacts are the addresses of those whom this member is to reach.
func (n *Node) contacts(ctx context.Context) []string {
	addrs := n.lookup(ctx)
	for _, p := range n.cfg.Peers {
		if p.ID != n.id {
			addrs = append(addrs, p.Addr)
		}
	}
	return addrs
}

// route gives the address of this machine from which it reaches one of addrs, with
// the port on which this member listens; "" if it reaches none. Nothing is sent.
func (n *Node) route(addrs []string) string {
	_, port, err := net.SplitHostPort(n.addr)
	if err != nil {
		return ""
	}
	loopback := ""
	for _, addr := range addrs {
		c, err := net.DialTimeout("udp", addr, lookupTime)
		if err != nil {
			continue
		}
		local, _, err := net.SplitHostPort(c.LocalAddr().String())
		c.Close()
		ip, errIP := netip.ParseAddr(local)
		switch at := net.JoinHostPort(local, port); {
		case err != nil || errIP != nil || ip.IsLinkLocalUnicast():
		case ip.IsLoopback():
			loopback = at // where all of them are on this machine
		default:
			return at
		}
	}
	return loopback
}

// locate finds the address that settleAddress has left open, as soon as one of those
// whom this member is to reach can be reached, and tells the Machine. It reports
// whether the address is known.
func (n *Node) locate(ctx context.Context, addrs []string) bool {
	known := false
	if n.call(ctx, func() { known = n.cfg.Advertise != "" }) != nil || known {
		return known
	}
	addr := n.route(addrs)
	if addr == "" {
		return false
	}
	return n.call(ctx, func() {
		n.cfg.Advertise = addr
		n.transport.Advertise(addr)
		n.cfg.Logger.Warn("the others reach this member here, as its connections tell; --advertise sets another", "address", addr)
		n.emit(election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: n.machine.Self(), Address: addr}})
	}) == nil
}

// keepLocating locates this member in a cluster whose members are all configured.
func (n *Node) keepLocating(ctx context.Context) {
	for !n.locate(ctx, n.contacts(ctx)) {
		select {
		case <-time.After(machine.JoinBackoff):
		case <-ctx.Done():
			return
		}
	}
}

// checkReach finds a member that could tell nobody where it is.
func (c Config) checkReach() error {
	if c.Wire != nil || c.Advertise != "" || !everywhere(c.Listen) || len(c.Join) > 0 {
		return nil
	}
	if slices.ContainsFunc(c.Peers, func(p Peer) bool { return string(p.ID) != c.ID || !everywhere(p.Addr) }) {
		return nil
	}
	return config("listen address %q is every address of this machine, and nobody is named from whom this member could learn which of them the others reach: set --advertise HOST:PORT, or listen on one address", c.Listen)
}

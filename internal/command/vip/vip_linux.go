package vip

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Check reports why addresses cannot be held here: there is no such device, the address is
// the machine's own, or this process may not change it.
func Check(c Config) error {
	link, err := find(c.Dev)
	if err != nil {
		return err
	}
	there, err := addressesOf(link)
	if err != nil {
		return err
	}
	if err := c.own(there); err != nil {
		return err
	}
	for _, need := range []struct {
		capability    int
		name, purpose string
	}{{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", "add an address"}, {unix.CAP_NET_RAW, "CAP_NET_RAW", "announce it"}} {
		if has, err := capable(need.capability); err == nil && !has {
			return fmt.Errorf("this process lacks %s, without which it cannot %s: run it as root, or with AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW in its systemd unit", need.name, need.purpose)
		}
	}
	return nil
}

// own refuses an address that the device has for good as the only one of its family: without it the
// machine could not be reached while it does not lead. What an earlier run has left ends by itself.
func (c Config) own(there []netlink.Addr) error {
	for _, p := range c.Addresses {
		family := slices.DeleteFunc(slices.Clone(there), func(a netlink.Addr) bool {
			return (a.IP.To4() != nil) != p.Addr().Is4() || a.IP.IsLinkLocalUnicast()
		})
		if len(family) == 1 && family[0].Flags&unix.IFA_F_PERMANENT != 0 && family[0].IP.Equal(p.Addr().AsSlice()) {
			return fmt.Errorf("address %s is the only one of %s, and is removed while this machine does not lead: give an address that no machine has of its own", p, c.Dev)
		}
	}
	return nil
}

// find returns the device of that name.
func find(dev string) (netlink.Link, error) {
	link, err := netlink.LinkByName(dev)
	if err == nil {
		return link, nil
	}
	var names []string
	links, _ := netlink.LinkList()
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	return nil, fmt.Errorf("network device %q: %w: this machine has %q", dev, err, names)
}

// capable reports whether this process has a capability now.
func capable(capability int) (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, err
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0, nil
}

// Clear removes addresses that an earlier process has left: this machine no longer holds them. A
// device that does not exist has none.
func Clear(c Config) (err error) {
	link, err := find(c.Dev)
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
		return nil
	} else if err != nil {
		return err
	}
	there, err := addressesOf(link)
	if err != nil {
		return err
	}
	for i := range there {
		ip, _ := netip.AddrFromSlice(there[i].IP)
		if !slices.ContainsFunc(c.Addresses, func(p netip.Prefix) bool { return p.Addr() == ip.Unmap() }) {
			continue
		}
		switch bad := netlink.AddrDel(link, &there[i]); {
		case bad == nil:
			c.Log.Warn("removed the floating address that an earlier holder had left", "address", there[i].IPNet, "dev", c.Dev)
		case !errors.Is(bad, unix.EADDRNOTAVAIL) && !errors.Is(bad, unix.ENODEV):
			err = errors.Join(err, fmt.Errorf("remove %s from %s: %w", there[i].IPNet, c.Dev, bad))
		}
	}
	return err
}

// addressesOf returns the addresses of a device. The kernel interrupts a list that changes while it is read.
func addressesOf(link netlink.Link) (there []netlink.Addr, err error) {
	for range 100 {
		if there, err = netlink.AddrList(link, netlink.FAMILY_ALL); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("addresses of %s: %w", link.Attrs().Name, err)
	}
	return there, nil
}

// Hold adds the addresses, announces them, and keeps them until ctx ends: then it returns nil. It
// returns an error when the device has no carrier, because a reachable machine should have them.
// The addresses are removed when it returns.
func Hold(ctx context.Context, c Config) (err error) {
	changes, done := make(chan netlink.LinkUpdate), make(chan struct{})
	defer close(done)
	// Subscribed before the first check, so that no change is missed.
	if err := netlink.LinkSubscribe(changes, done); err != nil {
		return fmt.Errorf("watch %s: %w", c.Dev, err)
	}
	link, err := find(c.Dev)
	if err != nil {
		return err
	}
	if !carries(link) {
		return fmt.Errorf("%s has no carrier", c.Dev)
	}
	h := &holder{Config: c, link: link}
	defer h.close() // after the addresses are removed, because it may wait for long
	defer func() { err = errors.Join(err, h.remove()) }()
	return h.keep(ctx, changes)
}

// carries reports whether a device is up and has a carrier, as far as it reports that.
func carries(link netlink.Link) bool {
	a := link.Attrs()
	return a.Flags&net.FlagUp != 0 && a.OperState != netlink.OperDown && a.OperState != netlink.OperLowerLayerDown && a.OperState != netlink.OperNotPresent
}

type holder struct {
	Config
	link netlink.Link
	arp  *os.File // packet socket of announcements; nil: not open yet
}

func (h *holder) close() {
	if h.arp != nil {
		h.arp.Close()
	}
}

// keep adds the addresses, and renews and announces them until ctx or the device ends.
func (h *holder) keep(ctx context.Context, changes <-chan netlink.LinkUpdate) error {
	began := time.Now()
	renew := time.NewTicker(renewal)
	defer renew.Stop()
	announce := time.NewTimer(0)
	defer announce.Stop()
	if err := h.add(); err != nil {
		return err
	}
	h.Log.Info("this machine has the floating address", "address", h.Addresses, "dev", h.Dev)
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-renew.C:
			if err := h.add(); err != nil {
				return err
			}
		case <-announce.C:
			h.announce()
			n++
			announce.Reset(time.Until(began.Add(announced(n))))
		case u, open := <-changes:
			switch {
			case !open:
				return fmt.Errorf("%s can be watched no longer", h.Dev)
			case u.Link.Attrs().Index != h.link.Attrs().Index:
			case u.Header.Type == unix.RTM_DELLINK || !carries(u.Link):
				return fmt.Errorf("%s has lost its carrier", h.Dev)
			}
		}
	}
}

// add adds the addresses, or renews them.
func (h *holder) add() error {
	for _, p := range h.Addresses {
		a := h.address(p)
		if err := netlink.AddrReplace(h.link, a); err != nil {
			return fmt.Errorf("add %s to %s: %w", p, h.Dev, err)
		}
	}
	return nil
}

func (h *holder) address(p netip.Prefix) *netlink.Addr {
	a := &netlink.Addr{
		IPNet:    &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())},
		ValidLft: int(lifetime.Seconds()),
	}
	if p.Addr().Is4() {
		a.PreferedLft = a.ValidLft
		return a
	}
	// Without duplicate detection, because the previous holder may just be removing it; and not as
	// a source address of this machine's own connections.
	a.Flags = unix.IFA_F_NODAD
	return a
}

// remove removes the addresses.
func (h *holder) remove() (err error) {
	for _, p := range h.Addresses {
		bad := netlink.AddrDel(h.link, h.address(p))
		if bad != nil && !errors.Is(bad, unix.EADDRNOTAVAIL) && !errors.Is(bad, unix.ENODEV) {
			err = errors.Join(err, fmt.Errorf("remove %s from %s: %w", p, h.Dev, bad))
		}
	}
	h.Log.Info("this machine has released the floating address", "address", h.Addresses, "dev", h.Dev)
	return err
}

// announce announces the addresses to all neighbours. It logs a failure; the next call tries again.
func (h *holder) announce() {
	mac := h.link.Attrs().HardwareAddr
	if len(mac) != 6 {
		return // a device without neighbours, such as a tunnel
	}
	for _, p := range h.Addresses {
		tell := h.neighbourAdvertisement
		if p.Addr().Is4() {
			tell = h.gratuitousARP
		}
		if err := tell(p.Addr(), mac); err != nil {
			h.Log.Warn("cannot announce the floating address", "address", p, "dev", h.Dev, "error", err)
		}
	}
}

// Of ARP.
const (
	arpEthernet = 1
	arpRequest  = 1
	arpReply    = 2
)

// arpFrame returns ARP's payload which announces that a is at mac.
func arpFrame(operation uint16, a netip.Addr, mac net.HardwareAddr) []byte {
	b := binary.BigEndian.AppendUint16(nil, arpEthernet)
	b = binary.BigEndian.AppendUint16(b, unix.ETH_P_IP)
	b = append(b, 6, 4)
	b = binary.BigEndian.AppendUint16(b, operation)
	b = append(append(b, mac...), a.AsSlice()...)
	target := make(net.HardwareAddr, 6)
	if operation == arpReply {
		target = mac
	}
	return append(append(b, target...), a.AsSlice()...)
}

// gratuitousARP broadcasts a request and a reply, because some neighbours accept only the former,
// and some only the latter. The socket stays open: to close it waits until each processor has passed
// through the scheduler, while a holder that is asked to end has an address to remove.
func (h *holder) gratuitousARP(a netip.Addr, mac net.HardwareAddr) error {
	if h.arp == nil {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // protocol 0: it receives nothing
		if err != nil {
			return os.NewSyscallError("packet socket", err)
		}
		h.arp = os.NewFile(uintptr(fd), "packet socket")
	}
	fd := int(h.arp.Fd())
	to := &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ARP), Ifindex: h.link.Attrs().Index, Halen: 6}
	for i := range 6 {
		to.Addr[i] = 0xff
	}
	return errors.Join(unix.Sendto(fd, arpFrame(arpRequest, a, mac), 0, to), unix.Sendto(fd, arpFrame(arpReply, a, mac), 0, to))
}

// bigEndian returns n in the byte order of the network, for a field that is read as such.
func bigEndian(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

// Of neighbour discovery.
const (
	advertisement    = 136
	flagRouter       = 0x80
	flagOverride     = 0x20
	optionLinkTarget = 2
)

// advert returns the advertisement that a is at mac. The kernel adds the checksum.
func advert(a netip.Addr, mac net.HardwareAddr, router bool) []byte {
	b := []byte{advertisement, 0, 0, 0, flagOverride, 0, 0, 0}
	if router {
		b[4] |= flagRouter
	}
	b = append(b, a.AsSlice()...)
	return append(append(b, optionLinkTarget, 1), mac...)
}

// neighbourAdvertisement sends an advertisement to all nodes on the link.
func (h *holder) neighbourAdvertisement(a netip.Addr, mac net.HardwareAddr) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return os.NewSyscallError("ICMPv6 socket", err)
	}
	defer unix.Close(fd)
	var nothing unix.ICMPv6Filter
	for i := range nothing.Data {
		nothing.Data[i] = ^uint32(0)
	}
	index := h.link.Attrs().Index
	err = errors.Join(
		unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &nothing),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255), // otherwise receivers drop it
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, index),
		unix.Bind(fd, &unix.SockaddrInet6{Addr: a.As16(), ZoneId: uint32(index)}),
	)
	if err != nil {
		return fmt.Errorf("ICMPv6 socket: %w", err)
	}
	all := &unix.SockaddrInet6{Addr: netip.IPv6LinkLocalAllNodes().As16(), ZoneId: uint32(index)}
	return os.NewSyscallError("sendto", unix.Sendto(fd, advert(a, mac, h.routes()), 0, all))
}

// routes reports whether this machine is a router on the device: without the flag, neighbours that
// use it as a router would drop it.
func (h *holder) routes() bool {
	on, _ := os.ReadFile("/proc/sys/net/ipv6/conf/" + h.Dev + "/forwarding")
	return strings.TrimSpace(string(on)) == "1"
}

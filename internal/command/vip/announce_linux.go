package vip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

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
// and some only the latter.
func (h *holder) gratuitousARP(a netip.Addr, mac net.HardwareAddr) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // protocol 0: it receives nothing
	if err != nil {
		return os.NewSyscallError("packet socket", err)
	}
	defer unix.Close(fd)
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

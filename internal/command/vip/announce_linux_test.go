package vip

import (
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A machine keeps the address that others reach it by.
func TestTheMachinesOwnAddressDoesNotFloat(t *testing.T) {
	has := func(cidr string, flags int) netlink.Addr {
		a, err := netlink.ParseAddr(cidr)
		if err != nil {
			t.Fatal(err)
		}
		a.Flags = flags
		return *a
	}
	v4, v6, local := has("10.0.0.1/24", unix.IFA_F_PERMANENT), has("fd00::1/64", unix.IFA_F_PERMANENT), has("fe80::1/64", unix.IFA_F_PERMANENT)
	for _, c := range []struct {
		floats string
		there  []netlink.Addr
		own    bool
	}{
		{"10.0.0.1/24", []netlink.Addr{v4, v6, local}, true},
		{"10.0.0.1/32", []netlink.Addr{v4}, true},
		{"fd00::1/64", []netlink.Addr{v4, v6, local}, true},
		{"10.0.0.100/24", []netlink.Addr{v4, v6, local}, false},
		{"10.0.0.1/24", []netlink.Addr{v4, has("10.0.0.2/24", unix.IFA_F_PERMANENT)}, false},
		{"10.0.0.1/24", []netlink.Addr{has("10.0.0.1/24", 0)}, false}, // of an earlier run: it ends by itself
		{"10.0.0.1/24", nil, false},
	} {
		err := Config{Addresses: []netip.Prefix{netip.MustParsePrefix(c.floats)}, Dev: "eth0"}.own(c.there)
		if (err != nil) != c.own {
			t.Errorf("%s on a device that has %v: %v", c.floats, c.there, err)
		}
	}
}

// To close a packet socket waits until each processor has passed through the scheduler, which can
// take longer than a lease. Only the first announcement opens one.
func TestAnAnnouncementClosesNoSocket(t *testing.T) {
	mac, _ := net.ParseMAC("02:00:00:00:00:07")
	h := &holder{link: &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "lo", Index: 1, HardwareAddr: mac}}}
	defer h.close()
	a := netip.MustParseAddr("127.0.0.100")
	if err := h.gratuitousARP(a, mac); errors.Is(err, unix.EPERM) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max})
	if err == nil {
		err = h.gratuitousARP(a, mac)
		unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
	if err != nil {
		t.Errorf("the second announcement: %v", err)
	}
}

// The bytes are those of RFC 826 and RFC 4861, section 4.4.
func TestAnnouncements(t *testing.T) {
	mac, _ := net.ParseMAC("02:00:00:00:00:07")
	a4, a6 := netip.MustParseAddr("10.0.0.100"), netip.MustParseAddr("fd00::100")
	for _, c := range []struct {
		what, want string
		got        []byte
	}{
		{"ARP request", "0001" + "0800" + "0604" + "0001" + "020000000007" + "0a000064" + "000000000000" + "0a000064", arpFrame(arpRequest, a4, mac)},
		{"ARP reply", "0001" + "0800" + "0604" + "0002" + "020000000007" + "0a000064" + "020000000007" + "0a000064", arpFrame(arpReply, a4, mac)},
		{"advertisement", "8800" + "0000" + "20000000" + "fd000000000000000000000000000100" + "0201" + "020000000007", advert(a6, mac, false)},
		{"a router's", "8800" + "0000" + "a0000000" + "fd000000000000000000000000000100" + "0201" + "020000000007", advert(a6, mac, true)},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

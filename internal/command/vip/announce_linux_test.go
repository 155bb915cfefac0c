package vip

import (
	"encoding/hex"
	"net"
	"net/netip"
	"testing"
)

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

// Package vip manages floating addresses: a machine has them for as long as its member leads.
//
// An address is added with a lifetime of a few seconds, which is renewed while it is held. However
// the holder ends, the kernel removes the address. Its location is announced to neighbours at once
// and then repeatedly: by gratuitous ARP (RFC 5227, section 3) and unsolicited neighbour
// advertisement (RFC 4861, section 7.2.6).
package vip

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"
)

// Config is which addresses to hold, and where.
type Config struct {
	Addresses []netip.Prefix // each with the length of its network's prefix
	Dev       string         // name of the network device
	Log       *slog.Logger
}

// How long the kernel keeps an address without a renewal, and how often it is renewed.
const (
	lifetime = 4 * time.Second
	renewal  = time.Second
)

// announceAt is when to announce, since the address was added; afterwards every announceEvery.
var announceAt = []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, time.Second}

const announceEvery = 2 * time.Second

// announced returns when to announce for the n-th time, since the address was added.
func announced(n int) time.Duration {
	if n < len(announceAt) {
		return announceAt[n]
	}
	last := len(announceAt) - 1
	return announceAt[last] + time.Duration(n-last)*announceEvery
}

// Parse reads addresses such as 10.0.0.100/24 or 2001:db8::100/64.
func Parse(args []string) (list []netip.Prefix, err error) {
	for _, arg := range args {
		p, bad := netip.ParsePrefix(arg)
		a := p.Addr()
		switch {
		case bad != nil:
			_, bare := netip.ParseAddr(arg)
			if bare == nil {
				bad = errors.New("the length of the network's prefix is missing, such as /24")
			}
			err = errors.Join(err, fmt.Errorf("address %q: %w", arg, bad))
		case p.Bits() == 0 || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a.Is4In6():
			err = errors.Join(err, fmt.Errorf("address %q: give one that a network device can have, such as 10.0.0.100/24", arg))
		case slices.ContainsFunc(list, func(q netip.Prefix) bool { return q.Addr() == a }):
			err = errors.Join(err, fmt.Errorf("address %q is given twice", arg))
		default:
			list = append(list, p)
		}
	}
	return list, err
}

package superpeer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/memberlist"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// Method is how super peers are chosen.
type Method = rules.Method

// The methods. All share attachment, leases and registrars (docs/superpeers-methods.md).
const (
	Tokens      = rules.Tokens      // the refined protocol; default
	Textbook    = rules.Textbook    // the source's repulsion, to the letter
	Prefix      = rules.Prefix      // the source's k-bit rule: 2^k super peers
	PrefixExact = rules.PrefixExact // N equal ranges of the identifier space
	Random      = rules.Random      // N random nodes that stay in place
)

// Defaults of [Config].
const (
	DefaultListen   = "127.0.0.1:7600"
	DefaultFraction = 0.02
	DefaultRound    = time.Second
)

// Membership is which nodes have which nodes on their list.
type Membership string

// The memberships.
const (
	MembershipFull Membership = "full" // every node lists all; default
	MembershipCore Membership = "core" // super peers list each other, the rest a few of them; for thousands of nodes
)

// Config describes a node and its overlay. Method, Fraction, Capacity, Round and Membership belong
// to the overlay: a node with different values is refused.
type Config struct {
	Overlay  string        // name of the overlay, which separates it from the rest; default "default"
	Method   Method        // default Tokens
	Fraction float64       // the share of nodes that are super peers, 1e-7 to 1; default 0.02
	Capacity int           // the most nodes that a super peer serves, without itself; 0: no limit
	Round    time.Duration // how often a node acts, and the overlay's unit of time; default 1s, at least 50ms

	Membership Membership // default MembershipFull; MembershipCore goes with tokens, textbook and random

	ID        string   // for users; at most 64 bytes; default random
	Listen    string   // HOST:PORT, for UDP and TCP; default 127.0.0.1:7600; port 0 picks a free port
	Advertise string   // HOST:PORT that nodes use to reach it; default where it listens
	Join      []string // HOST:PORT of nodes to join through, tried until the first answers; none: it creates the overlay
	Service   string   // this node's service as published to all nodes, such as its HOST:PORT; at most 128 bytes
	Secret    string   // file with the cluster's secret, which encrypts all messages
	Insecure  bool     // listen beyond loopback without Secret

	// Measure returns a service's own distance to the node at addr, its Service if that is set.
	// Default: the shortest round trip of three small packets. Only this distance decides. Measure
	// is called once for each value, which is valid for 60 rounds.
	Measure func(ctx context.Context, addr string) (time.Duration, error)

	Transport memberlist.Transport // replaces UDP and TCP, and Listen; nil: those; see NewTransport
	Seed      uint64               // of this node's random choices, but not of its number; 0: random
	Logger    *slog.Logger         // default: none
}

// ErrConfig is wrapped by errors about a Config that cannot work. An address that this machine does not have yet is
// no such error: the same Config can work later.
var ErrConfig = errors.New("configuration")

// ErrImpossible is wrapped if the configured super peers cannot serve all nodes.
var ErrImpossible = rules.ErrImpossible

// Bounds of what a node publishes.
const (
	maxID      = 64
	maxService = 128
	minRound   = 50 * time.Millisecond
	maxRound   = time.Minute
)

// withDefaults returns c with its zero fields replaced.
func (c Config) withDefaults() Config {
	c.Overlay = cmp.Or(c.Overlay, "default")
	c.Method = cmp.Or(c.Method, Tokens)
	c.Fraction = cmp.Or(c.Fraction, DefaultFraction)
	c.Round = cmp.Or(c.Round, DefaultRound)
	c.Membership = cmp.Or(c.Membership, MembershipFull)
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Validate returns every fault of c, or nil. Its errors wrap [ErrConfig]; for a capacity that
// cannot work the error wraps [ErrImpossible] and shows the calculation.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	fault := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	node := c.node(rules.NewRing(nil))
	if err := node.Validate(); err != nil {
		faults = append(faults, err)
	} else if err := workable(c.Fraction, c.Capacity); err != nil {
		faults = append(faults, err)
	}
	switch c.Membership {
	case MembershipFull:
	case MembershipCore:
		if c.Method == rules.Prefix || c.Method == rules.PrefixExact {
			fault("membership core with method %s: its ranges are those of all nodes; take tokens, or full", c.Method)
		}
	default:
		fault("membership %q: want full or core", c.Membership)
	}
	if c.Round < minRound || c.Round > maxRound {
		fault("round %v: want %v to %v", c.Round, minRound, maxRound)
	}
	if len(c.Overlay) > 128 {
		fault("overlay %q: want at most 128 bytes", c.Overlay)
	}
	if !plain(c.ID, maxID) {
		fault("id %q: want at most %d bytes of printable text", c.ID, maxID)
	}
	if !plain(c.Service, maxService) {
		fault("service %q: want at most %d bytes of printable text", c.Service, maxService)
	}
	if c.Capacity > math.MaxInt32/2 {
		fault("capacity %d: want at most %d", c.Capacity, math.MaxInt32/2)
	}
	if c.Transport == nil {
		faults = append(faults, c.checkAddresses()...)
	} else if own, ok := c.Transport.(*sockets); ok && c.Secret == "" && !c.Insecure {
		if at, err := netip.ParseAddrPort(own.listener.Addr().String()); err == nil && !at.Addr().IsLoopback() {
			fault("the transport's listener at %s: every process that reaches it could take part; give a secret file, or set insecure", at)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrConfig, errors.Join(faults...))
}

func (c *Config) checkAddresses() (faults []error) {
	host, _, err := splitAddress(c.Listen)
	if err != nil {
		return []error{fmt.Errorf("listen %q: %w", c.Listen, err)}
	}
	if !host.IsLoopback() && c.Secret == "" && !c.Insecure {
		faults = append(faults, fmt.Errorf("listen %s: every process that reaches it could take part; give a secret file, or set insecure", c.Listen))
	}
	if c.Advertise != "" {
		if host, port, err := splitAddress(c.Advertise); err != nil || host.IsUnspecified() || port == 0 {
			faults = append(faults, fmt.Errorf("advertise %q: want IP:PORT at which others reach this node", c.Advertise))
		}
	} else if host.IsUnspecified() {
		faults = append(faults, fmt.Errorf("listen %s names no address for the others; give advertise", c.Listen))
	}
	for _, addr := range c.Join {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" || port == "0" {
			faults = append(faults, fmt.Errorf("join %q: want HOST:PORT", addr))
		}
	}
	return faults
}

// workable refuses a capacity with which a growing overlay could not serve all nodes.
func workable(fraction float64, capacity int) error {
	if capacity == 0 || float64(capacity)*fraction >= 1-fraction-1e-9 {
		return nil
	}
	return fmt.Errorf("%w: of 1000 nodes, %.4g super peers × capacity %d = %.4g places for %.4g others; raise the capacity to %d or the fraction to %.4g",
		ErrImpossible, 1000*fraction, capacity, 1000*fraction*float64(capacity), 1000*(1-fraction),
		int(math.Ceil((1-fraction)/fraction-1e-9)), 1/float64(capacity+1))
}

// node returns the configuration of the pure part. Homes are probed every round: a node that loses
// its super peer is served by its deputy within three rounds.
func (c *Config) node(router rules.Router) rules.Config {
	return rules.Config{
		Method: c.Method, Fraction: c.Fraction, Capacity: c.Capacity, Router: router,
		Metric: rules.Metric{Dims: rules.MaxDims}, Renew: 1,
	}.Defaults()
}

func splitAddress(addr string) (netip.Addr, int, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.Addr{}, 0, errors.New("want IP:PORT")
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return ip, 0, errors.New("want an IP address, not a name")
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return ip, 0, errors.New("want a port of 0 to 65535")
	}
	return ip, port, nil
}

func plain(text string, limit int) bool {
	return len(text) <= limit && !strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
}

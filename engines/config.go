package engines

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
)

// Config sets up an [Election]. Only ID is required.
type Config struct {
	ID       batuta.ID // of this candidate, in no other process; see [election.ParseID]
	Election string    // its name in views and events; default "default"
	Address  string    // published to the other candidates, as [batuta.View].Address; default ""

	Lease time.Duration // for how long a renewal holds; default 15 s
	Renew time.Duration // time between two renewals; default a sixth of Lease
	Stop  time.Duration // time in which the work must stop, when a leadership ends because the engine does not answer; default a fifth of Lease
	Drift float64       // part by which the rates of two clocks may differ; default 0.01

	// StandAlways keeps this process a candidate at all times. Otherwise it is a candidate while
	// [Election.Lead] is called, and after [Election.Campaign].
	StandAlways bool

	Logger *slog.Logger // default: nothing is logged
}

// Bounds of Config.
const (
	DefaultLease = 15 * time.Second
	MinLease     = 100 * time.Millisecond
	MaxLease     = 24 * time.Hour
	DefaultDrift = 0.01
)

// Check gives the error that [Start] would give for c, or nil.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults fills in what is not given, or returns all that is wrong.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Election == "" {
		c.Election = "default"
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Renew == 0 {
		c.Renew = c.Lease / 6
	}
	if c.Stop == 0 {
		c.Stop = c.Lease / 5
	}
	if c.Drift == 0 {
		c.Drift = DefaultDrift
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	id, err := election.ParseID(string(c.ID))
	if err != nil {
		wrong("ID: %w", err)
	}
	c.ID = id
	if len(c.Election) > 256 || !utf8.ValidString(c.Election) || strings.ContainsFunc(c.Election, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		wrong("Election: a name has at most 256 bytes of UTF-8, and no control characters")
	}
	if len(c.Address) > 256 || !utf8.ValidString(c.Address) || strings.ContainsFunc(c.Address, unicode.IsControl) {
		wrong("Address: it has at most 256 bytes, is valid UTF-8, and has no control characters")
	}
	if c.Lease < MinLease || c.Lease > MaxLease {
		wrong("Lease %v: give from %v to %v", c.Lease, MinLease, MaxLease)
	}
	if c.Drift < 0 || c.Drift >= 0.5 {
		wrong("Drift %g: give a part of one, from 0 to 0.5", c.Drift)
	}
	if c.Renew < 0 || c.Stop < 0 || c.Renew+c.Stop > c.Lease*3/4 {
		wrong("Renew %v and Stop %v take more than three quarters of Lease %v: no time is left for a renewal that fails", c.Renew, c.Stop, c.Lease)
	}
	if len(faults) > 0 {
		return c, fmt.Errorf("%w: %w", batuta.ErrConfig, errors.Join(faults...))
	}
	return c, nil
}

// whole is for how long a renewal holds by our own clock. A record has whole milliseconds.
func (c Config) whole() time.Duration {
	return time.Duration(float64(c.Lease.Truncate(time.Millisecond)) * (1 - c.Drift))
}

// asking is how long a call of the engine may take.
func (c Config) asking() time.Duration { return c.Lease / 5 }

// again is the pause after a call that has failed.
func (c Config) again() time.Duration { return max(c.Renew/4, 5*time.Millisecond) }

// aside is for how long a candidate that has resigned claims no leadership: every other candidate
// reads the record within that time.
func (c Config) aside() time.Duration { return 2 * c.Renew }

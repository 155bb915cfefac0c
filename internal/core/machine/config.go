package machine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Config sets up a [Machine]. The zero value of each optional field works.
type Config struct {
	Self          election.Rank           // this member; required
	Election      string                  // what the contest is about; default "default"
	Address       string                  // HOST:PORT where members reach this member
	Observer      bool                    // this member follows and never leads
	Meta          map[string]string       // what this member publishes, sound by [election.CheckMeta]
	Members       []election.Member       // everyone, this member included or not
	Closed        bool                    // the list is fixed: no member joins that is not on it
	Joins         bool                    // members admit this member: it asks a member that does not know it
	Newcomer      bool                    // it founds no cluster: until it knows of a leadership it is no candidate
	Expect        int                     // nor does any before so many members receive each other; 0: no such rule, else Newcomer counts for nothing
	MinMembers    int                     // it leads only while it receives so many members, itself included; 0: no such rule
	Algorithm     election.Algorithm      // required; belongs to this Machine alone
	Timing        election.Timing         // defaults: see [election.Timing]
	NoPreempt     bool                    // a higher-ranked member that returns follows the sitting leader
	ReapAfter     time.Duration           // a leader removes a member that has been away for so long: see [reaper.Reaper]; 0: none
	LeadUnhealthy bool                    // an unhealthy member leads if there was no leader for 2·T and no healthy member is in reach
	Incarnation   uint64                  // greater than that of any earlier process with this id
	State         election.State          // as last saved; zero at a first start
	Records       [][]byte                // as asked to be written by Append, oldest first; none at a first start; of a core of its own
	Following     election.Token          // start as settled under this leadership, as if elected before; for the lab
	Seed          uint64                  // of the jitter
	NoDetector    bool                    // the driver itself reports PeerDown and PeerUp; no links, no beats
	Trace         func(r election.Record) // receives what was done and why; may be nil
}

// Validate reports every fault of c at once, or nil.
func (c Config) Validate() error {
	var faults []error
	if c.Algorithm == nil {
		faults = append(faults, errors.New("no algorithm: set one, such as bully.New()"))
	}
	if _, err := election.ParseID(string(c.Self.ID)); err != nil {
		faults = append(faults, err)
	}
	seen := map[election.ID]bool{}
	for _, e := range c.Members {
		switch _, err := election.ParseID(string(e.ID)); {
		case err != nil:
			faults = append(faults, fmt.Errorf("member list: %w", err))
		case seen[e.ID]:
			faults = append(faults, fmt.Errorf("member list: id %s stands twice: give each member its own", e.ID))
		case e.ID.Kind() != c.Self.ID.Kind():
			faults = append(faults, fmt.Errorf("member list: id %s is a %v, but this member's id %s is a %v: all ids of a cluster must be of one kind", e.ID, e.ID.Kind(), c.Self.ID, c.Self.ID.Kind()))
		}
		seen[e.ID] = true
	}
	others := slices.DeleteFunc(slices.Clone(c.Members), func(e election.Member) bool { return e.ID == c.Self.ID })
	if len(others) >= election.MaxMembers || election.ListBytes(others)+(election.Member{Rank: c.Self, Address: c.Address}).Size() > election.MaxListBytes {
		faults = append(faults, fmt.Errorf("%d members: %w", len(c.Members), election.ErrFull))
	}
	return errors.Join(append(faults, c.Timing.Validate())...)
}

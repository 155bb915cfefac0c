// Package checking finds what is wrong with a cluster's configuration: at each member that it
// names, as the wire answers, and on this machine. It takes no part in an election.
package checking

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/net/discovery"
	"github.com/batuta-dev/batuta/internal/net/security"
)

// Long is the help text of "batuta check".
const Long = `check reads flags, environment and --config file as "batuta agent" does, asks each
member that they name, and prints one line for each finding. It works before the agents
start, and while they run: it is no member, and changes nothing.

Of each member it finds a name that does not resolve, a port that refuses or drops, a
different id, cluster, secret, certificate, algorithm, t-max, t-process or release, a
certificate that ends within 14 days, and a list that does not have this machine's member.
The clock of each machine is in its answer; a second of difference is a fault. The best of
three round trips is compared with t-max.
Of this machine it finds a listen address that it does not have, the permissions of the
secret and of the data directory, and how long a small write there takes to be safe.

It ends with exit code 1 when there is a fault, with 2 when the configuration is wrong.`

// Plan is a member's configuration, and how it is checked.
type Plan struct {
	Cluster, Election, Algorithm string

	ID                election.ID // of this member; "": not known yet
	Listen, Advertise string
	Members           []Target
	Join              []string
	Timing            election.Timing
	Security          security.Options
	DataDir           string // "": none
	DialOnly          bool   // members have a wire of their own, which has no question

	Limit time.Duration // for the answer of a member
	JSON  bool
}

// Target is where a member is to be.
type Target struct {
	ID   election.ID // "": any
	Addr string      // HOST:PORT
}

// Finding is a thing that is well, or a fault with what to do about it.
type Finding struct {
	OK     bool   `json:"ok"`
	Kind   string `json:"kind"`             // what was checked
	Member string `json:"member,omitempty"` // the id
	Where  string `json:"where"`            // an address or a path
	What   string `json:"what"`
	Do     string `json:"do,omitempty"` // of a fault
}

// Run checks all, and prints the findings to out. It fails with exit code 1 if there is a fault.
func Run(ctx context.Context, p Plan, out io.Writer) error {
	found := append(p.members(ctx), p.machine()...)
	faults := 0
	for _, f := range found {
		if !f.OK {
			faults++
		}
	}
	if err := p.print(out, found, faults); err != nil {
		return err
	}
	if faults > 0 {
		return cli.Exit(cli.Failed, fmt.Errorf("faults: %d of %d findings", faults, len(found)))
	}
	return nil
}

func (p *Plan) print(out io.Writer, found []Finding, faults int) error {
	if p.JSON {
		return json.NewEncoder(out).Encode(map[string]any{"ok": faults == 0, "findings": found})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RESULT\tMEMBER\tWHERE\tFINDING")
	for _, f := range found {
		result, text := "ok", f.What
		if !f.OK {
			result, text = "FAULT", f.What+": "+f.Do
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", result, election.Shown(cmp.Or(f.Member, "-")), f.Where, election.Shown(text))
	}
	return table.Flush()
}

// atOnce is how many members are asked at a time.
const atOnce = 64

// members asks each member, in the order of the list.
func (p *Plan) members(ctx context.Context) (found []Finding) {
	by, fault := security.New(context.Background(), p.Cluster, string(p.ID), p.Security)
	if fault != nil {
		found = append(found, Finding{Kind: "security", Member: string(p.ID), Where: "this machine", What: fault.Error(),
			Do: "then check again, as members were only dialed"})
	} else if life := by.Life().Certificate; ending(life) {
		found = append(found, p.endingSoon(string(p.ID), p.Security.CertFile, life))
	}
	targets := p.targets()
	for _, source := range p.Join {
		limited, cancel := context.WithTimeout(ctx, p.Limit)
		addrs, err := discovery.Expand(limited, source)
		cancel()
		if err != nil {
			found = append(found, Finding{Kind: "join", Where: source, What: err.Error(), Do: "correct the file, the records or --join"})
		}
		for _, addr := range addrs {
			targets = append(targets, Target{Addr: addr})
		}
	}
	each := make([][]Finding, len(targets))
	free := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, t := range targets {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			a := asked{plan: p, Target: t, by: by, dialOnly: p.DialOnly || fault != nil}
			each[i] = a.check(ctx)
		})
	}
	all.Wait()
	return append(found, slices.Concat(each...)...)
}

// targets are the members of the list, and that of this machine.
func (p *Plan) targets() (all []Target) {
	own := p.ID == election.None
	for _, t := range p.Members {
		own = own || t.ID == p.ID
		all = append(all, t)
	}
	if at := p.own(); !own && at != "" {
		all = append([]Target{{p.ID, at}}, all...)
	}
	return all
}

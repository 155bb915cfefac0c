// Package initial writes what the machines of a new cluster need: a configuration for each,
// and the cluster's secret or certificates.
package initial

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// plan is a cluster to be.
type plan struct {
	cluster, dir string
	members      []member
	quorum, tls  bool
	local        bool // all members are on this machine, for a trial: the files stay where they are
}

// member is a machine of the plan.
type member struct {
	id   election.ID
	host string // a name or an IP address, without brackets
	addr string // HOST:PORT
}

const (
	defaultPort = "7400"
	mostMembers = 64 // as many as quorum has
)

// parseMembers reads the members of --members.
func (p *plan) parseMembers(items []string) error {
	if len(items) < 2 || len(items) > mostMembers {
		return cli.Usagef("--members has %d: name 2 to %d machines, such as db1,db2,db3", len(items), mostMembers)
	}
	ids, hosts, loopbacks := map[election.ID]bool{}, map[string]bool{}, 0
	for _, item := range items {
		m, err := parseMember(item)
		if err != nil {
			return cli.Usagef("--members %q: %w", item, err)
		}
		if ids[m.id] {
			return cli.Usagef("--members: the id %s stands twice; give each member its own, as ID=HOST:PORT", m.id)
		}
		if len(p.members) > 0 && p.members[0].id.Kind() != m.id.Kind() {
			return cli.Usagef("--members: the ids %s and %s are of two kinds; give all of one kind, such as numbers, as ID=HOST:PORT",
				p.members[0].id, m.id)
		}
		if api.Loopback(m.addr) {
			loopbacks++
		}
		ids[m.id], hosts[m.host] = true, true
		p.members = append(p.members, m)
	}
	p.local = loopbacks == len(items)
	switch {
	case p.local:
		return p.checkPorts()
	case loopbacks > 0:
		return cli.Usagef("--members: no other machine reaches a member on loopback; give the machine's own address")
	case len(hosts) < len(items):
		return cli.Usagef("--members: two members have the same host; one fault would end both: give each a machine of its own")
	}
	return nil
}

// checkCluster finds what no agent would take as the cluster's name.
func checkCluster(name string) error {
	if !election.Printable(name, election.MaxID) || name == "" {
		return cli.Usagef("--cluster %q: give a name of 1 to %d bytes that prints, such as payments", name, election.MaxID)
	}
	return nil
}

// checkPorts finds two members on this machine that cannot listen both.
func (p *plan) checkPorts() error {
	seen := map[string]bool{}
	for _, m := range p.members {
		if seen[m.addr] {
			return cli.Usagef("--members: %s stands twice; give each member a port of its own, as ID=HOST:PORT", m.addr)
		}
		seen[m.addr] = true
	}
	return nil
}

// parseMember reads NAME, NAME:PORT or ID=HOST:PORT.
func parseMember(item string) (member, error) {
	name, at, both := strings.Cut(item, "=")
	if !both {
		at = item
	}
	host, port := at, defaultPort
	if _, err := netip.ParseAddr(at); err != nil && strings.Contains(at, ":") {
		if host, port, err = net.SplitHostPort(at); err != nil {
			return member{}, fmt.Errorf("write NAME, NAME:PORT or ID=HOST:PORT, such as db1 or 1=10.0.0.1:7400")
		}
	}
	if !both {
		name = host
	}
	id, err := election.ParseID(name)
	if err != nil {
		return member{}, err
	}
	if id := string(id); !filepath.IsLocal(id) || id == "." || strings.ContainsAny(id, `,"\`) {
		return member{}, fmt.Errorf("no directory can have the id %q as its name; give another, as ID=HOST:PORT", id)
	}
	addr := net.JoinHostPort(host, port)
	if err := election.CheckAddress(addr); err != nil {
		return member{}, fmt.Errorf("%q is no address: %w; write NAME, NAME:PORT or ID=HOST:PORT", at, err)
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return member{}, fmt.Errorf("%s names no machine; give the address at which the others reach it", host)
	}
	return member{id, host, addr}, nil
}

// name is the member's directory and, in certificates, the member.
func (m member) name() string { return string(m.id) }

// listen is where the member listens, and what it publishes instead; "": the same. A name may
// mean loopback on its own machine, so a member with a name listens at every address.
func (m member) listen() (listen, advertise string) {
	if _, err := netip.ParseAddr(m.host); err == nil || api.Loopback(m.addr) {
		return m.addr, ""
	}
	_, port, _ := net.SplitHostPort(m.addr) // parseMember has put it together
	return "0.0.0.0:" + port, m.addr
}

var plain = regexp.MustCompile(`^[A-Za-z0-9._/:@%+][A-Za-z0-9._/:@%+-]*$`)

// quoted is text as a shell reads it, unsplit.
func quoted(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

package main

import (
	"net"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/compat/boss"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// wireFlags choose the protocol between members.
type wireFlags struct {
	name, nodeType, announce string
	set                      *pflag.FlagSet // all flags, to see which were given
}

func (f *wireFlags) register(fs *pflag.FlagSet) {
	f.set = fs
	fs.StringVar(&f.name, "wire", "batuta", "speak protocol `NAME` between members: batuta, or boss (JSON, with nodes that do not run batuta)")
	fs.StringVar(&f.nodeType, "node-type", "", "`NAME` of the type that the nodes have in common, such as scrapper [wire boss]")
	fs.StringVar(&f.announce, "announce", "both", "announce a boss in `MODE` both, new_boss or identification [wire boss]")
}

// defaults puts those of the chosen wire in place of the flags' own.
func (f *wireFlags) defaults(a *agentFlags) error {
	if !slices.Contains([]string{"batuta", "boss"}, f.name) {
		return cli.Usagef("--wire %q: use batuta or boss", f.name)
	}
	if _, err := f.announcement(); err != nil {
		return err
	}
	if f.name != "boss" {
		if f.nodeType != "" {
			return cli.Usagef("--node-type %q: it goes with --wire boss; leave it out, or add that", f.nodeType)
		}
		if f.announce != "both" {
			return cli.Usagef("--announce %q: it goes with --wire boss; leave it out, or add that", f.announce)
		}
		return nil
	}
	if f.nodeType == "" {
		return cli.Usagef("--wire boss: give --node-type, the type that the other nodes have, such as scrapper")
	}
	if a.id == "" {
		return cli.Usagef("--wire boss: give --id, this member's IP address, such as 172.18.0.5")
	}
	given := f.set.Changed
	if !given("preempt") {
		a.preempt = false
	}
	if !given("heartbeat") {
		a.heartbeat = boss.DefaultHeartbeat
	}
	if !given("t-max") {
		a.tMax = boss.DefaultTMax
	}
	if !given("t-process") {
		a.tProcess = boss.DefaultTProcess
	}
	if !given("listen") {
		a.listen = net.JoinHostPort(a.id, strconv.Itoa(boss.DefaultPort))
	}
	return nil
}

func (f *wireFlags) announcement() (boss.Announce, error) {
	switch f.announce {
	case "both":
		return boss.Both, nil
	case "new_boss":
		return boss.NewBoss, nil
	case "identification":
		return boss.Identification, nil
	}
	return 0, cli.Usagef("--announce %q: use both, new_boss or identification", f.announce)
}

// apply sets the wire up.
func (f *wireFlags) apply(c *batuta.Config) {
	if f.name != "boss" {
		return
	}
	announce, _ := f.announcement() // defaults has seen it
	c.Wire = boss.New(boss.Options{NodeType: f.nodeType, Announce: announce, Preempt: !c.NoPreempt})
	if b, ok := c.Algorithm.(*bully.Bully); ok {
		bully.WithDead()(b) // the original asks them too
	}
}

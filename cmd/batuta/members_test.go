package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// The last member is not removed before the user has confirmed it; without a terminal, --yes does.
func TestTheLastMemberIsRemovedOnlyOnceConfirmed(t *testing.T) {
	_, now := startCluster(t, 1)
	m, asked := now.leader, ""
	remove := func(confirm func(string) bool, flags ...string) (string, int) {
		var out bytes.Buffer
		code := run(t.Context(), append([]string{"members", "remove", "1", "--agent", m.http}, flags...), cli.Env{Stdout: &out, Stderr: &out, Confirm: confirm, Lookup: func(string) (string, bool) { return "", false }})
		return out.String(), code
	}
	no := func(question string) bool { asked = question; return false }
	for name, confirm := range map[string]func(string) bool{"no terminal": nil, "not confirmed": no} {
		if text, code := remove(confirm); code != 2 || !strings.Contains(text, "1 is the last member") || !strings.Contains(text, "give --yes") {
			t.Errorf("%s: exit code %d: %s", name, code, text)
		}
		if text, code := askMember(t, m, "leader"); code != 0 || text != "1\n" {
			t.Fatalf("%s: afterwards, batuta leader ends with %d: %s", name, code, text)
		}
	}
	if !strings.Contains(asked, "last member") {
		t.Errorf("it asked %q", asked)
	}
	m.process = nil // it ends by itself
	if text, code := remove(nil, "--yes"); code != 0 || !strings.Contains(text, "removed 1; its agent ends") {
		t.Errorf("--yes: exit code %d: %s", code, text)
	}
}

// A quorum of three with one crashed: removing another up member leaves no majority.
func TestTheLastMajorityIsRemovedOnlyOnceConfirmed(t *testing.T) {
	t.Parallel()
	c, now := startQuorum(t)
	var crashed, other *member
	for _, m := range c.members {
		switch {
		case m == now.leader:
		case crashed == nil:
			crashed = m
		default:
			other = m
		}
	}
	mustCrash(t, c, crashed)
	down := func() bool {
		return slices.ContainsFunc(now.leader.events, func(l api.Line) bool { return l.Event == "member" && l.Member == crashed.id && l.State == "down" })
	}
	if err := c.until(t.Context(), agreeWithin, down); err != nil {
		t.Fatal(err)
	}
	text, code := askMember(t, now.leader, "members remove "+other.id)
	if code != 2 || !strings.Contains(text, "without "+other.id+" only 1 of 2 voters are up") || !strings.Contains(text, "give --yes") {
		t.Fatalf("exit code %d: %s", code, text)
	}
}

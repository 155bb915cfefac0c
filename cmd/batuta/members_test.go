package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// The last member is not removed before the user has confirmed it; without a terminal, --yes does.
func TestTheLastMemberIsRemovedOnlyOnceConfirmed(t *testing.T) {
	_, now := startCluster(t, 1)
	m, asked := now.leader, ""
	remove := func(confirm func(string) bool, flags ...string) (string, int) {
		var out bytes.Buffer
		code := run(t.Context(), append([]string{"members", "remove", "1", "--agent", m.http}, flags...), env{stdout: &out, stderr: &out, confirm: confirm, lookup: func(string) (string, bool) { return "", false }})
		return out.String(), code
	}
	no := func(question string) bool { asked = question; return false }
	for name, confirm := range map[string]func(string) bool{"no terminal": nil, "not confirmed": no} {
		if text, code := remove(confirm); code != 2 || !strings.Contains(text, "1 is the last member") || !strings.Contains(text, "give --yes") {
			t.Errorf("%s: exit code %d: %s", name, code, text)
		}
		if text, code := ask(t, m, "leader"); code != 0 || text != "1\n" {
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

func TestTheLossOfAMajorityIsDetected(t *testing.T) {
	up, down, gone := "up", "down", "removed"
	for _, tt := range []struct {
		quorum bool
		states []string
		id     string
		want   string
	}{
		{false, []string{up}, "1", "the last member"},
		{false, []string{up, gone}, "1", "the last member"},
		{false, []string{up}, "7", ""},
		{false, []string{up, down}, "1", ""},
		{true, []string{up, up, down}, "1", "only 1 of 2 voters are up"},
		{true, []string{up, up, down}, "3", ""},
		{true, []string{up, up, up}, "1", ""},
		{true, []string{up, up, down, up}, "1", "only 1 of 2 voters are up"},
		{true, []string{up, up, down, up}, "4", ""},
	} {
		var s api.Status
		if tt.quorum {
			s.Quorum = &api.Quorum{Voters: [][]string{{"1", "2", "3"}}} // a fourth has no vote
		}
		for i, state := range tt.states {
			s.Members = append(s.Members, api.Member{ID: string(rune('1' + i)), State: state})
		}
		if got := lossOf(s, tt.id); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
}

func TestOnlyAYesConfirms(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\r\n": true, "yes": true, "": false, "\n": false, "n\n": false, "yesterday\n": false} {
		var out bytes.Buffer
		if got := confirmed(strings.NewReader(answer), &out, "Remove it?"); got != want || out.String() != "Remove it? [y/N] " {
			t.Errorf("%q: %v after %q", answer, got, out.String())
		}
	}
}

// A quorum of three with one crashed: removing another up member leaves no majority.
func TestTheLastMajorityIsRemovedOnlyOnceConfirmed(t *testing.T) {
	fulltest.Parallel(t)
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
	text, code := ask(t, now.leader, "members remove "+other.id)
	if code != 2 || !strings.Contains(text, "without "+other.id+" only 1 of 2 voters are up") || !strings.Contains(text, "give --yes") {
		t.Fatalf("exit code %d: %s", code, text)
	}
}

// The command printed for a new member has the times of the cluster, and --insecure where its agent asks for it.
func TestTheCommandOfANewMemberHasWhatItsClusterNeeds(t *testing.T) {
	timing := func(profile string) api.Timing {
		p := profiles[profile]
		return api.Timing{Heartbeat: p.Heartbeat.String(), TMax: p.TMax.String(), TProcess: p.TProcess.String()}
	}
	for _, c := range []struct{ profile, security, address, want string }{
		{"lan", "insecure", "127.0.0.1:7404", ""},
		{"lan", "insecure", "10.0.0.4:7400", " --insecure"},
		{"lan", "secret", "10.0.0.4:7400", " --secret-file FILE"},
		{"wan", "secret", "10.0.0.4:7400", " --heartbeat 300ms --t-max 500ms --t-process 1s --secret-file FILE"},
		{"sharp", "insecure", "10.0.0.4:7400", " --heartbeat 5ms --t-max 3ms --t-process 17ms --insecure"},
	} {
		s := api.Status{ID: "1", Wire: 1, Cluster: batuta.DefaultCluster, Algorithm: "bully", Security: c.security, Timing: timing(c.profile), Members: []api.Member{{ID: "1", Address: "10.0.0.1:7400"}}}
		line := starting(s, api.Place{ID: "4", Address: c.address})
		if want := "\nstart it on its machine: batuta agent --id 4 --listen " + c.address + " --join 10.0.0.1:7400" + c.want; line != want {
			t.Errorf("%+v: %q, want %q", c, line, want)
		}
	}
}

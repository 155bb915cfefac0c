package ask

import (
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// What status promises of a quorum names what it assumes: with --takeover refused, whatever
// answers with a reset in the leader's place makes two of one.
func TestThePromiseOfAQuorumIsShown(t *testing.T) {
	s := api.Status{Algorithm: "quorum", Guarantee: batuta.GuaranteeOneLeader, Takeover: "lease"}
	if got := promise(s); !strings.Contains(got, "never two at a time") {
		t.Errorf("with takeover lease: %q", got)
	}
	s.Takeover = "refused"
	if got := promise(s); strings.Contains(got, "never two") || !strings.Contains(got, "no firewall") {
		t.Errorf("with takeover refused: %q", got)
	}
}

func TestDisagreementIsShown(t *testing.T) {
	here, there := "7:5", "8:4"
	var b strings.Builder
	new(Command).printAgreement(&b, api.Status{Token: &here}, []view{{Status: &api.Status{ID: "4", Token: &there, Leader: new("4"), Epoch: 8}}})
	if !strings.Contains(b.String(), "DISAGREES\t4 reports: 4, epoch 8") || !strings.Contains(b.String(), "1 of the 2 asked") {
		t.Errorf("got %s", b.String())
	}
}

func TestWhoDoesNotStandIsShown(t *testing.T) {
	for _, tt := range []struct {
		status api.Status
		want   string
	}{
		{api.Status{}, ""},
		{api.Status{Standing: "eligible"}, ""},
		{api.Status{Standing: "unsaved", DiskError: "no room"}, "candidate\tno: unsaved\nDISK\tno room\n"},
	} {
		var b strings.Builder
		if new(Command).printStanding(&b, tt.status); b.String() != tt.want {
			t.Errorf("got %q, want %q", b.String(), tt.want)
		}
	}
}

func TestRefusalsAreShown(t *testing.T) {
	var b strings.Builder
	printRefusals(&b, api.Status{Members: []api.Member{{ID: "1"}, {ID: "2", Refusal: "times: mine and yours"}}})
	if b.String() != "REFUSED\t2, by times: mine and yours\n" {
		t.Errorf("got %q", b.String())
	}
}

// Two followers do not talk to each other: how long that is so must not read as an alarm.
func TestWhoIsNotHeardAtRestIsNoAlarm(t *testing.T) {
	var b strings.Builder
	a := Command{Env: cli.Env{Stdout: &b}}
	before := api.Stamp{Time: time.Now().Add(-88 * time.Second)}
	if err := a.printMembers(api.Status{Members: []api.Member{{ID: "1", Address: "h:1", State: "up", LastSeen: before, Indirect: true}, {ID: "2", State: "down", LastSeen: before}, {ID: "3", State: "added"}}}); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(b.String(), "\n")
	for i, want := range []string{"LAST SEEN", "  -", "1m28s ago", "never"} {
		if !strings.HasSuffix(rows[i], want) || i == 1 && strings.Contains(rows[i], "ago") {
			t.Errorf("%q does not say %q", rows[i], want)
		}
	}
	if epoch := strings.Fields(rows[1])[6]; epoch != "-" { // of a follower under quorum no follower learns it
		t.Errorf("an unknown epoch is shown as %s", epoch)
	}
}

func TestTheMetadataOfBatutaItselfIsNotShown(t *testing.T) {
	var b strings.Builder
	a := Command{Env: cli.Env{Stdout: &b}}
	one := api.Member{ID: "1", Meta: map[string]string{"batuta.ticks": "AAAA"}}
	two := api.Member{ID: "2", Meta: map[string]string{"batuta.ticks": "AAAA", "zone": "b"}}
	for _, list := range [][]api.Member{{one}, {one, two}} {
		if err := a.printMembers(api.Status{Members: list}); err != nil {
			t.Fatal(err)
		}
	}
	if s := b.String(); strings.Contains(s, "AAAA") || strings.Count(s, "METADATA") != 1 || !strings.HasSuffix(s, "  zone=b\n") {
		t.Errorf("%s", s)
	}
}

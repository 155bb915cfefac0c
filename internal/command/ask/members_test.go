package ask

import (
	"strings"
	"testing"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
)

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

// The command printed for a new member has the times of the cluster, and --insecure where its agent asks for it.
func TestTheCommandOfANewMemberHasWhatItsClusterNeeds(t *testing.T) {
	timing := map[string]api.Timing{
		"lan":   {Heartbeat: election.DefaultHeartbeat.String(), TMax: election.DefaultTMax.String(), TProcess: election.DefaultTProcess.String()},
		"wan":   {Heartbeat: "300ms", TMax: "500ms", TProcess: "1s"},
		"sharp": {Heartbeat: "5ms", TMax: "3ms", TProcess: "17ms"},
	}
	for _, c := range []struct{ profile, security, address, want string }{
		{"lan", "insecure", "127.0.0.1:7404", ""},
		{"lan", "insecure", "10.0.0.4:7400", " --insecure"},
		{"lan", "secret", "10.0.0.4:7400", " --secret-file FILE"},
		{"wan", "secret", "10.0.0.4:7400", " --heartbeat 300ms --t-max 500ms --t-process 1s --secret-file FILE"},
		{"sharp", "insecure", "10.0.0.4:7400", " --heartbeat 5ms --t-max 3ms --t-process 17ms --insecure"},
	} {
		s := api.Status{ID: "1", Wire: 1, Cluster: batuta.DefaultCluster, Algorithm: "bully", Security: c.security, Timing: timing[c.profile], Members: []api.Member{{ID: "1", Address: "10.0.0.1:7400"}}}
		line := starting(s, api.Place{ID: "4", Address: c.address})
		if want := "\nstart it on its machine: batuta agent --id 4 --listen " + c.address + " --join 10.0.0.1:7400" + c.want; line != want {
			t.Errorf("%+v: %q, want %q", c, line, want)
		}
	}
}

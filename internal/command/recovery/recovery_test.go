package recovery

import (
	"net"
	"testing"

	"github.com/batuta-dev/batuta/election"
)

// A log may be that of a member without a vote: such a member is not counted with the voters that answer.
func TestAMajorityOfTheVotersIsNotRecovered(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	voter := func(id, addr string) election.Member {
		return election.Member{Rank: election.Rank{ID: election.ID(id)}, Address: addr}
	}
	up, down := l.Addr().String(), "127.0.0.1:1"
	for name, try := range map[string]struct {
		voters  []election.Member
		refuses bool
	}{
		"the only voter":                     {[]election.Member{voter("9", down)}, true},
		"a voter, and one of two answers":    {[]election.Member{voter("1", up), voter("2", down), voter("9", down)}, true},
		"a voter, and none of two answers":   {[]election.Member{voter("1", down), voter("2", down), voter("9", down)}, false},
		"no voter, and the only one is lost": {[]election.Member{voter("1", down)}, false},
		"no voter, and the only one answers": {[]election.Member{voter("1", up)}, true},
		"no voter, and one of three answers": {[]election.Member{voter("1", up), voter("2", down), voter("3", down)}, false},
		"no voter, and two of three answer":  {[]election.Member{voter("1", up), voter("2", up), voter("3", down)}, true},
	} {
		c := command{id: "9"}
		if err := c.refuse(t.Context(), try.voters); (err != nil) != try.refuses {
			t.Errorf("%s: %v", name, err)
		}
	}
}

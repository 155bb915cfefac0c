package side

import (
	"testing"

	"github.com/batuta-dev/batuta/election"
)

func TestOutweighs(t *testing.T) {
	of := func(id election.ID, size int, begun uint64) Side {
		return Side{Leader: election.Rank{ID: id}, Size: size, Begun: begun}
	}
	for _, c := range []struct {
		name    string
		s, o    Side
		preempt bool
		want    bool
	}{
		{"more members", of("1", 4, 9), of("5", 1, 1), true, true},
		{"fewer members", of("5", 1, 1), of("1", 4, 9), true, false},
		{"as many and a higher rank", of("5", 2, 9), of("1", 2, 1), true, true},
		{"as many and a lower rank", of("1", 2, 1), of("5", 2, 9), true, false},
		{"as many and older, without preemption", of("1", 2, 1), of("5", 2, 9), false, true},
		{"as many and as old, without preemption", of("5", 2, 3), of("1", 2, 3), false, true},
		{"its own size is not known", of("5", 0, 1), of("1", 2, 9), true, false},
		{"the other's size is not known", of("5", 4, 1), of("1", 0, 9), true, false},
		{"young itself", Side{Size: 5, Young: true}, of("1", 1, 9), true, false},
		{"a young one, to the leader", Side{Size: 5, Own: true}, Side{Size: 4, Young: true}, true, true},
		{"a young one, to a follower", Side{Size: 5}, Side{Size: 4, Young: true}, true, false},
		{"a small young one, to a follower", Side{Size: 5}, Side{Size: 2, Young: true}, true, true},
		{"half the side, to a follower", Side{Size: 4}, Side{Size: 2, Young: true}, true, false},
	} {
		if got := c.s.Outweighs(c.o, c.preempt); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if c.want && c.o.Outweighs(c.s, c.preempt) {
			t.Errorf("%s: both outweigh each other", c.name)
		}
	}
}

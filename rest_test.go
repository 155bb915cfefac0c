package batuta

import (
	"fmt"
	"testing"

	"github.com/batuta-dev/batuta/election"
)

// A scrape of the metrics lists all named elections. A list that grows as it is made would leave several times
// its own size as garbage.
func TestAListOfElectionsIsMadeAtOnce(t *testing.T) {
	e := newElections()
	const names = 10000
	for i := range names {
		e.tell(View{Election: fmt.Sprint("shard-", i), Token: Token{Epoch: 1, Leader: election.Rank{ID: "1"}}})
	}
	made := testing.AllocsPerRun(3, func() {
		if n := len(e.list()); n != names {
			t.Fatalf("%d views of %d elections", n, names)
		}
	})
	if made > 4 {
		t.Errorf("a list of %d elections takes %v allocations, want 2", names, made)
	}
}

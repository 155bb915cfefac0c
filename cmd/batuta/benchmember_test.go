package main

import (
	"maps"
	"testing"

	"github.com/batuta-dev/batuta"
)

// A watcher that begins anew while some elections change hands is first told of leaderships
// that have ended, and counts in the end what is led all the same.
func TestAWatcherThatBeginsAnewCountsWhatIsLed(t *testing.T) {
	token := func(epoch uint64, id batuta.ID) batuta.Token {
		return batuta.Token{Epoch: epoch, Leader: batuta.Rank{ID: id}}
	}
	all := newTally(3)
	for _, v := range []batuta.View{
		{Election: "shard-0", Token: token(1, "2")},
		{Election: "shard-1", Lost: token(1, "2")},
		{Election: "shard-2", Token: token(1, "3")},
		{Election: "shard-1", Token: token(2, "3")},
		{Election: "shard-2", Lost: token(1, "3")},
		{Election: "shard-2", Token: token(2, "1")},
	} {
		all.sees(v)
	}
	if want := map[batuta.ID]int{"1": 1, "2": 1, "3": 1}; all.led != 3 || !maps.Equal(all.by, want) {
		t.Errorf("%d are led, by %v; want %v", all.led, all.by, want)
	}
}

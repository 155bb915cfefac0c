package enginetest

import (
	"errors"
	"sync"
	"testing"

	"github.com/batuta-dev/batuta/engines"
)

// Alone does f at all at once, and gives the result of the only one that succeeds.
func Alone[E engines.Engine](t testing.TB, all []E, f func(i int, e E) (engines.Record, error)) (won engines.Record, winner E) {
	t.Helper()
	results, errs := make([]engines.Record, len(all)), make([]error, len(all))
	var done sync.WaitGroup
	begin := make(chan struct{})
	for i, e := range all {
		done.Go(func() {
			<-begin
			results[i], errs[i] = f(i, e)
		})
	}
	close(begin)
	done.Wait()
	winners := 0
	for i, err := range errs {
		if err == nil {
			winners++
			won, winner = results[i], all[i]
		} else if !errors.Is(err, engines.ErrTaken) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if winners != 1 {
		t.Fatalf("%d of %d succeed", winners, len(all))
	}
	return won, winner
}

package lab

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// parallel calls f(0) … f(n-1) on all CPUs. f must write only what belongs to its number, so that
// the result is the same on any number of CPUs.
func parallel(n int, f func(i int)) {
	workers, size := min(runtime.GOMAXPROCS(0), n), 64
	if n <= size*workers {
		size = 1
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	for range workers {
		wg.Go(func() {
			for from := 0; from < n; {
				to := int(next.Add(int64(size)))
				from = to - size
				for i := from; i < min(to, n); i++ {
					f(i)
				}
			}
		})
	}
	wg.Wait()
}

// meanOfSmallest returns the mean of the k smallest of xs, which it sorts.
func meanOfSmallest(xs []float32, k int) float64 {
	slices.Sort(xs)
	sum := 0.0
	for _, x := range xs[:k] {
		sum += float64(x)
	}
	return sum / float64(max(k, 1))
}

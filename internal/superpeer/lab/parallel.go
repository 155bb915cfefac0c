package lab

import (
	"runtime"
	"slices"
	"sync"
)

// parallel calls f(0) … f(n-1) on all CPUs. f must write only what belongs to its number, so that
// the result is the same on any number of CPUs.
func parallel(n int, f func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	const chunk = 64
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := 0
	take := func() (from, to int) {
		mu.Lock()
		defer mu.Unlock()
		size := chunk
		if n <= chunk*workers {
			size = 1
		}
		from = next
		next = min(n, next+size)
		return from, next
	}
	for range workers {
		wg.Go(func() {
			for from, to := take(); from < to; from, to = take() {
				for i := from; i < to; i++ {
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

package web

import (
	"runtime"
	"testing"
)

// The kernel ends a killed process's connections only after it has taken the memory back,
// so what pages cost that nobody asks for delays every failover.
func TestAPageThatNobodyAsksForCostsNothing(t *testing.T) {
	site := Dashboard()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	handler := site.Handler()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(handler)
	if made := after.TotalAlloc - before.TotalAlloc; made > 256<<10 {
		t.Errorf("a handler that serves nothing yet has allocated %d KiB", made>>10)
	}
}

package live

import (
	"runtime"
	"time"
)

// usage is what all nodes have used so far.
type usage struct {
	at    time.Time
	bytes uint64
	cpu   time.Duration
}

func (g *group) usage() usage {
	u := usage{at: time.Now(), cpu: cpuTime(), bytes: g.sent}
	for _, i := range g.live() {
		u.bytes += g.wires[i].Sent()
	}
	return u
}

func (u usage) since(v usage, nodes int) (bytes, cpu float64) {
	t := u.at.Sub(v.at).Seconds() * float64(nodes)
	if t <= 0 {
		return 0, 0
	}
	return float64(u.bytes-v.bytes) / t, (u.cpu - v.cpu).Seconds() / t
}

// memory returns the present memory of the process, in bytes.
func memory() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

package superpeer

import rules "github.com/batuta-dev/batuta/internal/superpeer"

// membership is how a driver learns of nodes. Only the driver's goroutine calls it.
type membership interface {
	// ring returns the nodes that keep tokens' records, if that has changed since; else nil.
	ring(since uint64) ([]rules.Place, uint64)
	// nodes returns the present number of nodes, this node included, as far as is known.
	nodes() int
	// supers returns the number of super peers that this node knows of; self: it is one.
	supers(self bool) int
	// round maintains the list, once a round.
	round(now rules.Round)
	// hold receives a message before the Node does, and reports whether it has to wait.
	hold(m *rules.Message) bool
	// failed handles that k did not answer.
	failed(k *known)
}

// full is the membership in which memberlist lists all nodes on every node.
type full struct {
	d    *driver
	size int
}

func (f *full) ring(since uint64) ([]rules.Place, uint64) {
	places, changed := f.d.m.peers.places(since)
	if places != nil {
		f.size = len(places)
	}
	return places, changed
}

func (f *full) nodes() int               { return f.size }
func (f *full) supers(self bool) int     { return f.d.m.book.supers(f.d.self, self) }
func (f *full) round(now rules.Round)    { f.d.reunite(now) }
func (f *full) hold(*rules.Message) bool { return false }
func (f *full) failed(*known)            {}

package superpeer

import rules "github.com/batuta-dev/batuta/internal/superpeer"

// membership is how a driver comes to know the others. The driver's goroutine alone calls it.
type membership interface {
	// ring lists who keeps tokens' records, if that has changed since; else nil.
	ring(since uint64) ([]rules.Place, uint64)
	// nodes is how many there are, this one included, as far as can be told now.
	nodes() int
	// round does once a round what keeps the list true.
	round(now rules.Round)
	// hold sees what has come before the Node does, and tells whether it is to wait.
	hold(m *rules.Message) bool
	// failed says that k did not answer.
	failed(k *known)
}

// full is the membership in which every node knows all others, from memberlist.
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
func (f *full) round(now rules.Round)    { f.d.reunite(now) }
func (f *full) hold(*rules.Message) bool { return false }
func (f *full) failed(*known)            {}

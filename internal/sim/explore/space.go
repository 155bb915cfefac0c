package explore

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// space is the graph of all states that a search may reach.
type space[S any] interface {
	shared() *cluster
	first() (S, *invariant.Violation)
	key(c S, b []byte) []byte // appends the canonical form of c
	moves(c S, to []move) []move
	reduced(c S, all []move) []move // leaves out orders with the same result
	timers(c S, a int) []string     // armed at a member; a move has their index
	rests(c S, moves []move) bool
	atRest(c S) *invariant.Violation // checks a state in which nothing is left to happen
	after(c S, mv move) (S, *invariant.Violation)
	tooFar(c S) bool
	fork() space[S] // a space for a further worker
}

// digest identifies the canonical form of a state. Its value differs from process to process: no result depends on it.
type digest [2]uint64

var seeds = [...]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func digestOf(b []byte) digest {
	return digest{maphash.Bytes(seeds[0], b), maphash.Bytes(seeds[1], b)}
}

// cluster is what all states of a space have in common.
type cluster struct {
	c       Config
	n       int
	ranks   []election.Rank
	members []election.Member
	fresh   func() election.Algorithm
	verbs   map[moveKind]scenario.Verb // of the moves
	spelled string                     // those verbs, as text
	log     func(trace.Entry)          // nil: a search
	silent  bool                       // nothing is logged, since steps are replayed
	ticks   time.Duration              // of the log, a millisecond per move
}

// newCluster also reports whether the algorithm measures time.
func newCluster(maker scenario.Maker, c Config, ranks []election.Rank) (k cluster, timed bool, err error) {
	fresh, err := maker(c.Algorithm, c.Option)
	if err != nil {
		return k, false, err
	}
	k = cluster{c: c, n: len(ranks), ranks: ranks, fresh: fresh}
	for _, r := range ranks {
		k.members = append(k.members, election.Member{Rank: r, Address: string(r.ID)})
	}
	_, timed = fresh().(machine.CoreMaker)
	return k, timed, nil
}

func (k *cluster) shared() *cluster { return k }

// index returns the number of a member; 0 for none.
func (k *cluster) index(id election.ID) int {
	return max(0, slices.IndexFunc(k.ranks, func(r election.Rank) bool { return r.ID == id }))
}

func (k *cluster) broken(i int, rule, format string, args ...any) *invariant.Violation {
	return &invariant.Violation{Rule: rule, Member: k.ranks[i].ID, At: k.ticks, What: fmt.Sprintf(format, args...)}
}

// note logs what is done to a member.
func (k *cluster) note(i int, what, why string) {
	k.write(trace.Entry{Member: k.ranks[i].ID, What: what, Why: why, Fault: true})
}

// passes logs that a message leaves or arrives.
func (k *cluster) passes(m *election.Message, at election.ID, what string, peer election.ID) {
	if k.log != nil { // a search has no time for entries
		k.write(trace.Entry{Member: at, What: what, Peer: peer, Token: m.Token, Message: m})
	}
}

func (k *cluster) write(e trace.Entry) {
	if k.log != nil && !k.silent {
		e.At = k.ticks
		k.log(e)
	}
}

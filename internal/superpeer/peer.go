package superpeer

import "math"

// Peer is a driver's handle for a process: never reused, not even for the same node's next
// incarnation. It has no meaning outside the driver, whose codec replaces it with an address.
type Peer int32

// None is no peer.
const None Peer = -1

// Round counts gossip periods from the driver's start. A round is much longer than a round trip: a
// request is normally answered in the same round.
type Round int32

// never is a round that does not come.
const never Round = math.MaxInt32

// MaxDims is the largest number of dimensions of a [Position].
const MaxDims = 4

// Position is a node's estimated position: a point in the space of round trips in milliseconds, and
// the height of its access link above it (Vivaldi's height vector: Dabek et al., SIGCOMM 2004,
// section 5.4). With true positions the height is zero.
type Position struct {
	X      [MaxDims]float32
	Height float32
}

// Metric is how positions are compared.
type Metric struct {
	Dims   int     // how many of a Position's coordinates are used, at most MaxDims
	Period float32 // side of a torus in milliseconds; 0 means that space does not wrap
	Exact  bool    // positions are true, not estimated: their distances can be trusted
}

// Offset returns the vector from a to b, the shortest on a torus.
func (m *Metric) Offset(a, b *Position) (v [MaxDims]float32) {
	for d := range m.Dims {
		x := b.X[d] - a.X[d]
		if m.Period > 0 {
			if x > m.Period/2 {
				x -= m.Period
			} else if x < -m.Period/2 {
				x += m.Period
			}
		}
		v[d] = x
	}
	return v
}

// Estimate returns the round trip between a and b by their positions, in milliseconds.
func (m *Metric) Estimate(a, b *Position) float32 {
	if m.Dims == 2 && m.Period == 0 { // most of a large simulation's time
		x, y := a.X[0]-b.X[0], a.X[1]-b.X[1]
		return float32(math.Sqrt(float64(x*x+y*y))) + a.Height + b.Height
	}
	return length(m.Offset(a, b)) + a.Height + b.Height
}

func length(v [MaxDims]float32) float32 {
	return float32(math.Sqrt(float64(v[0]*v[0] + v[1]*v[1] + v[2]*v[2] + v[3]*v[3])))
}

// Draw is a small seeded generator (splitmix64: Steele, Lea, Flood, OOPSLA 2014): eight bytes a
// node, while math/rand would take thousands. Any seed is good.
type Draw uint64

// Next returns a number of 64 random bits.
func (d *Draw) Next() uint64 {
	*d += 0x9e3779b97f4a7c15
	return Mix(uint64(*d))
}

// Below returns a number from 0 to n-1.
func (d *Draw) Below(n int) int { return int(d.Next() % uint64(n)) }

// Unit returns a number in [0, 1).
func (d *Draw) Unit() float64 { return float64(d.Next()>>11) / (1 << 53) }

// Mix spreads the bits of x over 64: splitmix64's finalizer, used to derive a random number from a
// number.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// self is the information that each part of a node has: the process, and its overlay.
type self struct {
	cfg  *Config
	key  uint64
	rng  Draw
	peer Peer
	size int32 // nodes in the overlay, as last reported
	at   Position
}

// registrarOf returns the node that keeps token's record; ok is false while that cannot be known.
func (s *self) registrarOf(token int32) (peer Peer, ok bool) {
	if s.size == 0 && s.cfg.Method.ranged() {
		return None, false
	}
	return s.cfg.Router.Owner(s.cfg.TokenKey(token, int(s.size)))
}

// wanted reports whether the overlay is large enough for token; true while its size is not known.
func (s *self) wanted(token int32) bool {
	return s.size == 0 || int(token) < s.cfg.Count(int(s.size))
}

// offset returns how far key lies behind the start of the range of token. With the prefix methods,
// a super peer over capacity splits its range: the nodes nearest to the start stay. The nodes
// behind go to the next range's super peer, where they are last.
func (s *self) offset(key uint64, token int32) uint64 {
	return key - s.cfg.TokenKey(token, int(s.size))
}

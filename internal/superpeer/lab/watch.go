package lab

// Watch is a run that is observed round by round.
type Watch struct {
	o       Options
	w       *world
	last    *Sample
	moves   moveCount
	churned bool // nodes came or went as the last round began
}

// NewWatch begins a run before its first round.
func NewWatch(o Options) (*Watch, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.Defaults()
	s := o.space()
	return &Watch{o: o, w: newWorld(o.config(s.metric()), s, o.Nodes, o.Seed)}, nil
}

// Play runs a round and measures it.
func (v *Watch) Play() Sample {
	v.churned = v.w.churn(v.o.Churn)
	v.w.play()
	s := v.w.sample(v.last, &v.moves)
	v.last = &s
	return s
}

// Map is the positions of nodes and the super peers that serve them. Its coordinates are from 0 to
// Width and Height.
type Map struct {
	Width, Height float64
	Nodes         []MapNode // without super peers, at most 4,000
	Super         []MapSuper
}

// MapNode is a node, and the index of its super peer in [Map.Super]; -1: not served.
type MapNode struct {
	X, Y  float64
	Super int
}

// MapSuper is a super peer.
type MapSuper struct {
	X, Y  float64
	Token int32 // the token that it holds
	Load  int   // how many nodes it serves
}

// Map returns the present map.
func (v *Watch) Map() Map {
	w := v.w
	p := takePicture(w)
	m := Map{Width: p.w, Height: p.h}
	for _, n := range p.nodes {
		m.Nodes = append(m.Nodes, MapNode{n.x, n.y, n.owner})
	}
	for i, s := range w.holders() {
		token, _, _ := w.nodes[s].Holding()
		m.Super = append(m.Super, MapSuper{p.holders[i].x, p.holders[i].y, token, p.holders[i].load})
	}
	return m
}

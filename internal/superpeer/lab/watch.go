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

// Map returns the present map.
func (v *Watch) Map() Map { return v.w.picture() }

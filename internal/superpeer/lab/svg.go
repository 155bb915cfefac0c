package lab

import (
	"bufio"
	"fmt"
	"io"
	"math"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

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
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
	Token int32   `json:"token"` // the token that it holds
	Load  int     `json:"load"`  // how many nodes it serves
}

// maxSpots is how many nodes the map shows; more would not be visible.
const maxSpots = 4000

// picture returns the present map.
func (w *world) picture() (p Map) {
	place := w.mapper(&p)
	index := map[superpeer.Peer]int{}
	for i, s := range w.holders() {
		x, y := place(s)
		token, _, _ := w.nodes[s].Holding()
		index[w.peerOf[s]] = i
		p.Super = append(p.Super, MapSuper{x, y, token, len(w.nodes[s].Serving())})
	}
	live := w.live()
	step := max(1, len(live)/maxSpots)
	for i := 0; i < len(live); i += step {
		s := live[i]
		if _, _, ok := w.nodes[s].Holding(); ok {
			continue
		}
		x, y := place(s)
		owner, ok := index[w.nodes[s].Home()]
		if !ok {
			owner = -1
		}
		p.Nodes = append(p.Nodes, MapNode{x, y, owner})
	}
	return p
}

// mapper returns the position of slots on the map. If there are only round trips, it uses their
// coordinates.
func (w *world) mapper(p *Map) func(int32) (x, y float64) {
	if p.Width, p.Height = w.space.shape(); p.Width > 0 {
		return w.space.draw
	}
	lowX, lowY, highX, highY := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, at := range w.placed {
		lowX, highX = min(lowX, float64(at.X[0])), max(highX, float64(at.X[0]))
		lowY, highY = min(lowY, float64(at.X[1])), max(highY, float64(at.X[1]))
	}
	p.Width, p.Height = max(highX-lowX, 1), max(highY-lowY, 1)
	return func(s int32) (x, y float64) {
		return float64(w.placed[s].X[0]) - lowX, float64(w.placed[s].X[1]) - lowY
	}
}

const (
	mapWidth   = 640.0
	mapHeight  = 640.0
	chartWidth = 380.0
	chartTall  = 120.0
	margin     = 24.0
)

// WriteSVG draws the map, each node in its super peer's colour, each super peer with a size for its
// load, and the curves over the rounds.
func (r *Report) WriteSVG(out io.Writer) error {
	b := bufio.NewWriter(out)
	width, height := mapWidth+chartWidth+3*margin, mapHeight+3*margin
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="11">`+"\n",
		width, height, width, height)
	fmt.Fprintf(b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" font-size="14">%s in %s: %d nodes, %d super peers (%d wanted), mean %.2f ms</text>`+"\n",
		margin, margin, r.Method, r.Space, r.Nodes, r.Live, r.Wanted, r.Mean)
	r.drawMap(b)
	ms := func(s *Sample) float64 { return s.Mean }
	r.drawCurve(b, 0, "mean latency, ms", ms, nil)
	r.drawCurve(b, 1, "super peers: live, wanted (dashed)",
		func(s *Sample) float64 { return float64(s.Live) }, func(s *Sample) float64 { return float64(s.Wanted) })
	load := func(s *Sample) float64 { return float64(s.LoadMax) }
	if r.Capacity > 0 {
		r.drawCurve(b, 2, "largest load, capacity (dashed)", load, func(*Sample) float64 { return float64(r.Capacity) })
	} else {
		r.drawCurve(b, 2, "largest load", load, nil)
	}
	r.drawCurve(b, 3, "unserved, %", func(s *Sample) float64 { return 100 * s.Unserved }, nil)
	r.drawCurve(b, 4, "moves of tokens a round", func(s *Sample) float64 { return float64(s.Moves) }, nil)
	fmt.Fprintln(b, "</svg>")
	return b.Flush()
}

func (r *Report) drawMap(b *bufio.Writer) {
	p := &r.picture
	scale := min(mapWidth/p.Width, mapHeight/p.Height)
	top := margin + 12
	fmt.Fprintf(b, `<rect x="%.0f" y="%.0f" width="%.1f" height="%.1f" fill="none" stroke="#999"/>`+"\n", margin, top, scale*p.Width, scale*p.Height)
	for _, s := range p.Nodes {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="1.6" fill="%s"/>`+"\n", margin+scale*s.X, top+scale*s.Y, colour(s.Super))
	}
	most := 1
	for _, s := range p.Super {
		most = max(most, s.Load)
	}
	// A thousand super peers have smaller marks than ten.
	size := min(9, 60/math.Sqrt(float64(len(p.Super)+1)))
	for i, s := range p.Super {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s" stroke="#000"><title>serves %d</title></circle>`+"\n",
			margin+scale*s.X, top+scale*s.Y, 1+size*math.Sqrt(float64(s.Load)/float64(most)), colour(i), s.Load)
	}
}

// colour turns by the golden angle, so that consecutive numbers differ.
func colour(owner int) string {
	if owner < 0 {
		return "#d00"
	}
	return fmt.Sprintf("hsl(%d,%d%%,%d%%)", int(float64(owner)*137.508)%360, 45+owner%3*15, 45+owner%4*8)
}

func (r *Report) drawCurve(b *bufio.Writer, row int, title string, value, dashed func(*Sample) float64) {
	left, top := mapWidth+2*margin, margin+12+float64(row)*(chartTall+14)
	high := 0.0
	for i := range r.samples {
		high = max(high, value(&r.samples[i]))
		if dashed != nil {
			high = max(high, dashed(&r.samples[i]))
		}
	}
	high = max(high, 1e-9) * 1.05
	fmt.Fprintf(b, `<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" fill="none" stroke="#999"/>`+"\n", left, top, chartWidth, chartTall)
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f">%s</text><text x="%.0f" y="%.0f" text-anchor="end">%.4g</text>`+"\n",
		left+4, top+12, title, left+chartWidth-4, top+12, high/1.05)
	line := func(f func(*Sample) float64, style string) {
		fmt.Fprintf(b, `<polyline fill="none" %s points="`, style)
		for i := range r.samples {
			x := left + chartWidth*float64(i)/float64(max(len(r.samples)-1, 1))
			fmt.Fprintf(b, "%.1f,%.1f ", x, top+chartTall*(1-f(&r.samples[i])/high))
		}
		fmt.Fprintln(b, `"/>`)
	}
	if dashed != nil {
		line(dashed, `stroke="#888" stroke-dasharray="4 3"`)
	}
	line(value, `stroke="#06c" stroke-width="1.5"`)
}

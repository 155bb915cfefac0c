package peeragent

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"

	"github.com/batuta-dev/batuta/superpeer"
)

// Chart is which super peer serves which nodes, as all super peers report.
type Chart struct {
	Status superpeer.Status  `json:"status"` // of the node that answers
	Groups []superpeer.Group `json:"super_peers"`
}

const (
	chartSize = 640.0
	margin    = 30.0
)

// WriteSVG draws the chart: nodes at their coordinates, each connected to its super peer, which
// grows with its load. Every node has its name as a tooltip.
func (c *Chart) WriteSVG(w io.Writer) error {
	b := bufio.NewWriter(w)
	place := c.scale()
	clients, sum := 0, 0.0
	for _, g := range c.Groups {
		for _, p := range g.Clients {
			clients++
			sum += max(0, p.RTT)
		}
	}
	who, others := fmt.Sprintf("%d super peers", len(c.Groups)), c.Status.Nodes-len(c.Groups)
	if live := c.Status.Live; live > len(c.Groups) { // a client of a core knows only some of them
		who, others = fmt.Sprintf("%d of %d super peers (all that %s knows; ask a super peer for the rest)", len(c.Groups), live, c.Status.ID), c.Status.Nodes-live
	}
	size := chartSize + 2*margin
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="11">`+"\n", size, size+margin, size, size+margin)
	fmt.Fprintf(b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	fmt.Fprintf(b, `<text x="%.0f" y="22" font-size="14">%s: %s serve %d of %d others, mean round trip %.1f ms</text>`+"\n",
		margin, html.EscapeString(c.Status.Overlay), html.EscapeString(who), clients, others, sum/float64(max(clients, 1)))
	for i := range c.Groups {
		c.draw(b, i, place)
	}
	fmt.Fprintln(b, "</svg>")
	return b.Flush()
}

func (c *Chart) draw(b *bufio.Writer, i int, place func(x, y float64) (float64, float64)) {
	g := &c.Groups[i]
	hue := int(float64(i)*137.508) % 360
	x, y := place(g.X, g.Y)
	for _, p := range g.Clients {
		px, py := place(p.X, p.Y)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="hsl(%d,40%%,75%%)"/>`, px, py, x, y, hue)
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="hsl(%d,60%%,45%%)"><title>%s: %s from %s</title></circle>`+"\n",
			px, py, hue, html.EscapeString(p.ID), way(p.RTT), html.EscapeString(g.ID))
	}
	said := ""
	if !g.Answers {
		said = ", and did not answer"
	}
	fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="hsl(%d,60%%,45%%)" stroke="#000"><title>%s at %s serves %d%s</title></circle>`+"\n",
		x, y, 5+math.Sqrt(float64(len(g.Clients))), hue, html.EscapeString(g.ID), html.EscapeString(g.Address), len(g.Clients), said)
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s (%d)</text>`+"\n", x+9, y-7, html.EscapeString(g.ID), len(g.Clients))
}

func way(ms float64) string {
	if ms < 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.1f ms", ms)
}

// scale maps milliseconds of the coordinates to the picture.
func (c *Chart) scale() func(x, y float64) (float64, float64) {
	lowX, lowY, highX, highY := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	see := func(x, y float64) {
		lowX, highX, lowY, highY = min(lowX, x), max(highX, x), min(lowY, y), max(highY, y)
	}
	for _, g := range c.Groups {
		see(g.X, g.Y)
		for _, p := range g.Clients {
			see(p.X, p.Y)
		}
	}
	k := chartSize / max(highX-lowX, highY-lowY, 1)
	return func(x, y float64) (float64, float64) { return margin + k*(x-lowX), 2*margin + k*(y-lowY) }
}

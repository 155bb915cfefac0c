package peeragent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/superpeer"
)

// Line is an event for programs: "--events json" and /v1/events.
type Line struct {
	Time  api.Stamp `json:"time"`
	Event string    `json:"event"` // ready, super, ordinary, home, client or behind
	ID    string    `json:"id"`    // of the node that saw it

	// of ready
	Overlay  string  `json:"overlay,omitempty"`
	Listen   string  `json:"listen,omitempty"`
	HTTP     string  `json:"http,omitempty"`
	Method   string  `json:"method,omitempty"`
	Fraction float64 `json:"fraction,omitempty"`
	Capacity int     `json:"capacity,omitempty"`

	// of super and ordinary
	Token   *int32 `json:"token,omitempty"`
	Version uint32 `json:"version,omitempty"`

	// of home
	Home  *string  `json:"home,omitempty"` // "": no super peer serves the node
	RTTms *float64 `json:"rtt_ms,omitempty"`

	// of client
	Client string `json:"client,omitempty"`
	State  string `json:"state,omitempty"` // came or went

	Address string `json:"address,omitempty"` // of the home or client
	Service string `json:"service,omitempty"`
}

// Ready returns an agent's first line.
func Ready(s superpeer.Status, http string) Line {
	return Line{Time: api.Stamp{Time: time.Now()}, Event: "ready", ID: s.ID, Overlay: s.Overlay, Listen: s.Address,
		HTTP: http, Method: s.Method, Fraction: s.Fraction, Capacity: s.Capacity}
}

// LineOf returns an event that node id saw.
func LineOf(id string, ev superpeer.Event) Line {
	l := Line{Time: api.Stamp{Time: ev.Time}, Event: ev.Kind, ID: id}
	switch ev.Kind {
	case superpeer.EventSuper, superpeer.EventOrdinary:
		l.Token, l.Version = &ev.Token, ev.Version
	case superpeer.EventHome:
		l.Home = new("")
		if ev.Home != nil {
			l.Home, l.Address, l.Service = &ev.Home.ID, ev.Home.Address, ev.Home.Service
			if ev.RTT >= 0 {
				l.RTTms = &ev.RTT
			}
		}
	case superpeer.EventClient:
		l.Client, l.Address, l.Service, l.State = ev.Client.ID, ev.Client.Address, ev.Client.Service, "went"
		if ev.Came {
			l.State = "came"
		}
	}
	return l
}

// BehindLine reports to a reader of node id's events that it was too slow and has missed some.
func BehindLine(id string, at time.Time) Line {
	return Line{Time: api.Stamp{Time: at}, Event: "behind", ID: id}
}

// WriteJSON prints l as a line of JSON.
func (l Line) WriteJSON(w io.Writer) error {
	body, err := json.Marshal(l)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", body)
	}
	return err
}

// WriteText prints l for a user; short: with the local time of day, for a terminal.
func (l Line) WriteText(w io.Writer, short bool) error {
	_, err := fmt.Fprintf(w, "%s  %s\n", l.Time.Text(short), l.text())
	return err
}

func (l *Line) text() string {
	switch l.Event {
	case "ready":
		http := ""
		if l.HTTP != "" {
			http = ", HTTP on " + l.HTTP
		}
		return fmt.Sprintf("node %s of overlay %s listens on %s%s", l.ID, l.Overlay, l.Listen, http)
	case superpeer.EventSuper:
		if l.Token != nil {
			return fmt.Sprintf("%s is a super peer (token %d, version %d)", l.ID, *l.Token, l.Version)
		}
	case superpeer.EventOrdinary:
		if l.Token != nil {
			return fmt.Sprintf("%s is a super peer no longer (token %d)", l.ID, *l.Token)
		}
	case superpeer.EventHome:
		if l.Home == nil || *l.Home == "" {
			return l.ID + " has no super peer"
		}
		way := ""
		if l.RTTms != nil {
			way = fmt.Sprintf(", %.1f ms away", *l.RTTms)
		}
		return fmt.Sprintf("%s is served by %s at %s%s", l.ID, *l.Home, l.Address, way)
	case "behind":
		return "some events are left out: the present state follows"
	case superpeer.EventClient:
		return fmt.Sprintf("client %s at %s %s", l.Client, l.Address, l.State)
	}
	return l.Event
}

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

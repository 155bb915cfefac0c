package trace

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Measures of the picture, in its own units.
const (
	svgLeft   = 92.0 // room for the names of lanes
	svgWidth  = 1060.0
	svgTop    = 64.0
	svgLane   = 78.0 // between two lanes
	svgFoot   = 104.0
	svgRight  = 40.0
	svgSpan   = 12.0 // thickness of a leadership
	svgLabels = 9    // most rows of labels of a lane
)

// SVG draws a space-time diagram: a lane per member, highest rank on top, and time to the
// right. Messages are arrows; faults, suspicions and claims are marks. Each leadership is a
// colored span on the lanes of its leader and followers.
func (s *Story) SVG(of *scenario.Scenario) string {
	d := &diagram{lanes: map[election.ID]float64{}, colours: map[election.Token]string{}}
	d.from, d.to = s.bounds()
	members := of.Setup.Members
	for i := range members {
		d.lanes[members[len(members)-1-i].ID] = svgTop + svgLane*(float64(i)+0.5)
	}
	d.bottom = svgTop + svgLane*float64(len(members))
	d.begin(of)
	d.axis()
	d.spans(s, of)
	d.messages(s)
	d.marks(s)
	d.legend()
	d.b.WriteString("</svg>\n")
	return d.b.String()
}

type diagram struct {
	b        strings.Builder
	from, to time.Duration
	bottom   float64
	lanes    map[election.ID]float64
	colours  map[election.Token]string
	order    []election.Token
	kinds    []election.MessageKind // the kinds that it draws, in the order of their first message
}

func (d *diagram) put(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

func (d *diagram) x(t time.Duration) float64 {
	t = min(max(t, d.from), d.to)
	return svgLeft + (svgWidth-svgLeft-svgRight)*float64(t-d.from)/float64(max(d.to-d.from, 1))
}

func (d *diagram) begin(of *scenario.Scenario) {
	height := d.bottom + svgFoot
	d.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="system-ui, sans-serif" font-size="13" role="img">`, svgWidth, height)
	d.put(`<title>%s</title>`, html.EscapeString(of.Setup.Algorithm+" election: "+of.Name))
	d.put(`<defs><marker id="head" viewBox="0 0 8 8" refX="7.2" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0.8 L8 4 L0 7.2 Z" fill="context-stroke"/></marker></defs>`)
	d.put(`<rect width="%.0f" height="%.0f" fill="#ffffff"/>`, svgWidth, height)
	d.put(`<text x="%.1f" y="30" font-size="16" font-weight="600" fill="#20262e">%s</text>`, svgLeft, html.EscapeString(title(of)))
	for _, r := range of.Setup.Members {
		y := d.lanes[r.ID]
		d.put(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#b8bec6" stroke-width="1.4"/>`, svgLeft, y, svgWidth-svgRight, y)
		d.put(`<text x="%.1f" y="%.1f" text-anchor="end" font-weight="600" fill="#20262e">member %s</text>`, svgLeft-12, y+4.5, html.EscapeString(string(r.ID)))
	}
}

// title returns the algorithm and what is done to its members, cut at 100 bytes.
func title(of *scenario.Scenario) string {
	text := of.Setup.Algorithm
	for _, step := range of.Steps {
		switch step.Do {
		case scenario.Run, scenario.At, scenario.Expect, scenario.Mark, scenario.Agree, scenario.Settle:
			continue
		}
		if text += ": " + step.String(); len(text) > 100 {
			return text[:100] + "…"
		}
	}
	return text
}

// axis marks round times.
func (d *diagram) axis() {
	step := time.Millisecond
	for _, k := range []time.Duration{2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 60000} {
		if (d.to-d.from)/step <= 12 {
			break
		}
		step = k * time.Millisecond
	}
	digits := 3
	if step >= 100*time.Millisecond {
		digits = 1
	}
	for t := d.from.Truncate(step) + step; t <= d.to; t += step {
		x := d.x(t)
		d.put(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#eceff2"/>`, x, svgTop-6, x, d.bottom)
		d.put(`<text x="%.1f" y="%.1f" text-anchor="middle" font-size="11" fill="#7a828c">%.*f s</text>`, x, d.bottom+16, digits, t.Seconds())
	}
	d.put(`<text x="%.1f" y="%.1f" text-anchor="end" font-size="11" fill="#7a828c">time →</text>`, svgWidth-svgRight, d.bottom+32)
}

var spanColours = [...]string{"#4f8fd0", "#e0913a", "#5aa469", "#b36bb0", "#c9545b", "#7f8c3a"}

func (d *diagram) colour(t election.Token) string {
	if c, ok := d.colours[t]; ok {
		return c
	}
	c := spanColours[len(d.order)%len(spanColours)]
	d.colours[t] = c
	d.order = append(d.order, t)
	return c
}

// spans draws which leader each member follows, and when the member is down.
func (d *diagram) spans(s *Story, of *scenario.Scenario) {
	type span struct {
		t     election.Token
		since time.Duration
		down  string
	}
	at := map[election.ID]span{}
	end := func(id election.ID, to time.Duration) {
		now := at[id]
		y, ok := d.lanes[id]
		if !ok || to < d.from {
			return
		}
		switch {
		case now.t.Defined():
			thick, opacity := svgSpan*0.55, 0.45
			if now.t.Leader.ID == id {
				thick, opacity = svgSpan, 0.95
			}
			d.put(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="3" fill="%s" opacity="%.2f"/>`,
				d.x(now.since), y-thick/2, d.x(to)-d.x(now.since), thick, d.colour(now.t), opacity)
		case now.down != "":
			d.put(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ffffff" stroke-width="3"/>`, d.x(now.since), y, d.x(to), y)
			d.put(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#9aa2ab" stroke-width="1.4" stroke-dasharray="2 5"/>`, d.x(now.since), y, d.x(to), y)
		}
	}
	for i := range s.Entries {
		e := &s.Entries[i]
		next := span{since: e.At}
		switch e.What {
		case "leads", "follows":
			next.t = e.Token
		case "loses":
		case "crashes", "freezes", "loses power":
			next.down = e.What
		case "starts", "thaws":
		default:
			continue
		}
		end(e.Member, e.At)
		at[e.Member] = next
	}
	for _, r := range of.Setup.Members {
		end(r.ID, d.to)
	}
}

// messages draws an arrow for each message, and a dashed arrow where it is dropped.
func (d *diagram) messages(s *Story) {
	left := map[uint64]time.Duration{}
	for i := range s.Entries {
		e := &s.Entries[i]
		if !drawn(e) {
			continue
		}
		if e.What == "sends" {
			left[e.Flight] = e.At
			continue
		}
		sent, known := left[e.Flight]
		y1, ok1 := d.lanes[e.Peer]
		y2, ok2 := d.lanes[e.Member]
		if !known || !ok1 || !ok2 || e.At < d.from || sent > d.to {
			continue
		}
		if !slices.Contains(d.kinds, e.Message.Kind) {
			d.kinds = append(d.kinds, e.Message.Kind)
		}
		x1, x2 := d.x(sent), d.x(e.At)
		colour, dash := messageColour(e.Message.Kind), ""
		if e.What == "drops" {
			colour, dash = "#c3c9d0", ` stroke-dasharray="4 3"`
		}
		d.put(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="1.5"%s marker-end="url(#head)"><title>%s</title></line>`,
			x1, y1, x2, y2, colour, dash, html.EscapeString(fmt.Sprintf("%s from %s to %s", label(e), e.Peer, e.Member)))
	}
}

func messageColour(k election.MessageKind) string {
	switch k {
	case election.Election:
		return "#c2410c"
	case election.Answer:
		return "#15803d"
	case election.Coordinator, election.Elected:
		return "#1d4ed8"
	case election.Resign, election.Handover:
		return "#7e22ce"
	}
	return "#94a3b8"
}

// marks draws faults, requests and decisions of members.
func (d *diagram) marks(s *Story) {
	rows := map[election.ID][svgLabels]float64{}
	for i := range s.Entries {
		e := &s.Entries[i]
		y, ok := d.lanes[e.Member]
		text := markText(e)
		if !ok || text == "" || e.At < d.from || e.At > d.to {
			continue
		}
		x := d.x(e.At)
		d.mark(e, x, y)
		width := 6.2*float64(len(text)) + 8
		ends := rows[e.Member]
		for row := range ends {
			if x-4 < ends[row] && row < len(ends)-1 {
				continue
			}
			ends[row] = x + width
			ly := y - 11 - 12*float64(row)
			if row >= 2 { // below the lane if there is no room above
				ly = y + 21 + 12*float64(row-2)
			}
			lx, anchor := x+3, "start"
			if x+width > svgWidth-8 {
				lx, anchor = x-3, "end"
			}
			d.put(`<text x="%.1f" y="%.1f" text-anchor="%s" font-size="11" fill="%s" paint-order="stroke" stroke="#ffffff" stroke-width="3">%s</text>`, lx, ly, anchor, markColour(e), html.EscapeString(text))
			break
		}
		rows[e.Member] = ends
	}
}

func markText(e *Entry) string {
	switch e.What {
	case "crashes", "freezes", "thaws", "starts", "loses power", "resigns", "stalled", "campaigns":
		return e.What
	case "suspects", "finds down", "no longer suspects":
		return e.What + " " + string(e.Peer)
	case "claims":
		return fmt.Sprintf("claims epoch %d", e.Token.Epoch)
	case "leads":
		return fmt.Sprintf("leads, epoch %d", e.Token.Epoch)
	case "follows":
		return "follows " + string(e.Peer)
	}
	return ""
}

func markColour(e *Entry) string {
	switch e.What {
	case "crashes", "freezes", "loses power", "suspects", "finds down", "stalled":
		return "#b91c1c"
	case "claims", "leads":
		return "#1e3a8a"
	}
	return "#475569"
}

func (d *diagram) mark(e *Entry, x, y float64) {
	switch e.What {
	case "crashes", "loses power":
		d.put(`<path d="M%.1f %.1f l12 12 m0 -12 l-12 12" stroke="#b91c1c" stroke-width="3" fill="none"/>`, x-6, y-6)
	case "freezes":
		d.put(`<path d="M%.1f %.1f v14 m6 -14 v14" stroke="#b91c1c" stroke-width="3" fill="none"/>`, x-3, y-7)
	case "suspects", "finds down":
		d.put(`<circle cx="%.1f" cy="%.1f" r="5" fill="#ffffff" stroke="#b91c1c" stroke-width="2"/>`, x, y)
	case "claims":
		d.put(`<path d="M%.1f %.1f l6 6 l-6 6 l-6 -6 Z" fill="#1e3a8a"/>`, x, y-6)
	default:
		d.put(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x, y, markColour(e))
	}
}

func (d *diagram) legend() {
	x, y := svgLeft, d.bottom+54
	item := func(draw, text string) {
		width := 34 + 6.4*float64(len(text)) + 16
		if x+width > svgWidth-svgRight {
			x, y = svgLeft, y+24
		}
		d.put(`<g transform="translate(%.1f %.1f)">%s<text x="30" y="4" font-size="12" fill="#475569">%s</text></g>`, x, y, draw, html.EscapeString(text))
		x += width
	}
	for _, t := range d.order {
		item(fmt.Sprintf(`<rect y="-6" width="24" height="12" rx="3" fill="%s"/>`, d.colours[t]), fmt.Sprintf("%s leads, epoch %d", t.Leader.ID, t.Epoch))
	}
	for _, k := range d.kinds {
		item(fmt.Sprintf(`<line x2="24" stroke="%s" stroke-width="1.5" marker-end="url(#head)"/>`, messageColour(k)), strings.ToUpper(string(k)))
	}
	item(`<path d="M6 -6 l12 12 m0 -12 l-12 12" stroke="#b91c1c" stroke-width="3"/>`, "crash")
	item(`<circle cx="12" r="5" fill="#fff" stroke="#b91c1c" stroke-width="2"/>`, "suspicion")
	item(`<path d="M12 -6 l6 6 l-6 6 l-6 -6 Z" fill="#1e3a8a"/>`, "claim")
}

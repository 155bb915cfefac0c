package main

import (
	"bytes"
	"fmt"
	"math"
)

// Positions and sizes, in pixels.
const (
	chartWidth, chartHeight = 300, 240
	left, top, gap          = 60, 40, 80
)

// draw gives an SVG with two charts: messages and time against the members,
// each axis logarithmic.
func draw(sizes []int, costs map[string][]cost) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		left+2*chartWidth+gap+20, top+chartHeight+110)
	fmt.Fprintln(&b, `<rect width="100%" height="100%" fill="white"/>`)
	chart(&b, left, "messages of the contest", 100_000, sizes, costs, func(c cost) float64 { return float64(c.messages) })
	chart(&b, left+chartWidth+gap, "milliseconds until all agree", 10_000, sizes, costs, func(c cost) float64 { return float64(c.time.Milliseconds()) })
	for i, s := range subjects() {
		x := 20 + i*185
		fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="3" stroke-dasharray="%s"/>`, x, top+chartHeight+75, x+20, top+chartHeight+75, s.colour, s.dashes)
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`+"\n", x+26, top+chartHeight+79, s.name)
	}
	fmt.Fprintln(&b, "</svg>")
	return b.Bytes()
}

func chart(b *bytes.Buffer, x int, title string, most float64, sizes []int, costs map[string][]cost, value func(cost) float64) {
	atX := func(n int) float64 {
		low, high := math.Log(float64(sizes[0])), math.Log(float64(sizes[len(sizes)-1]))
		return float64(x) + chartWidth*(math.Log(float64(n))-low)/(high-low)
	}
	atY := func(v float64) float64 {
		return top + chartHeight*(1-math.Log10(max(v, 1))/math.Log10(most))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", x, top-14, title)
	for v := 1.0; v <= most; v *= 10 {
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>`, x, atY(v), x+chartWidth, atY(v))
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n", x-6, atY(v)+4, v)
	}
	for _, n := range sizes {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`, atX(n), top+chartHeight+18, n)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">members</text>`+"\n", x+chartWidth/2, top+chartHeight+38)
	for _, s := range subjects() {
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s" points="`, s.colour, s.dashes)
		for i, n := range sizes {
			fmt.Fprintf(b, "%.1f,%.1f ", atX(n), atY(value(costs[s.name][i])))
		}
		fmt.Fprintln(b, `"/>`)
	}
}

package lab

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// maxMatrix is the largest accepted matrix, 1.6 GB in memory.
const maxMatrix = 20_000

// maxRTT is the longest accepted round trip, in milliseconds.
const maxRTT = 60_000

// Matrix holds measured round trips in milliseconds.
type Matrix struct {
	n    int
	data []float32
}

// Size returns the number of hosts.
func (m *Matrix) Size() int { return m.n }

// RTT returns the round trip between hosts a and b, numbered from 0, in milliseconds.
func (m *Matrix) RTT(a, b int) float32 { return m.data[a*m.n+b] }

// accessLink is the most that the links of two nodes add to the round trip of their hosts, in
// milliseconds.
const accessLink = 6

// Spread returns a matrix of that many nodes on m's hosts, assigned in turn: each node has a link
// of its own that adds up to 3 ms to all of its round trips. With as many nodes as hosts it returns
// m.
func (m *Matrix) Spread(nodes int, seed uint64) *Matrix {
	if nodes == m.n {
		return m
	}
	link := func(i int) float32 {
		r := seeded(seed, 11, uint64(i))
		return float32(r.Unit()) * accessLink / 2
	}
	return symmetric(nodes, func(a, b int) float32 {
		x := link(a) + link(b)
		if a%m.n != b%m.n {
			x += m.RTT(a%m.n, b%m.n)
		}
		return x
	})
}

// symmetric returns a matrix of n hosts with these round trips.
func symmetric(n int, rtt func(a, b int) float32) *Matrix {
	m := &Matrix{n: n, data: make([]float32, n*n)}
	for a := range n {
		for b := range a {
			m.data[a*n+b] = rtt(a, b)
			m.data[b*n+a] = m.data[a*n+b]
		}
	}
	return m
}

// Measured returns the space of o as a matrix: all round trips between its nodes.
func Measured(o Options) (*Matrix, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.Defaults()
	if o.RTT != nil {
		return o.RTT, nil
	}
	if o.Nodes > maxMatrix {
		return nil, fmt.Errorf("nodes %d: a matrix has at most %d hosts", o.Nodes, maxMatrix)
	}
	s := o.space()
	return symmetric(o.Nodes, func(a, b int) float32 { return s.rtt(int32(a), int32(b)) }), nil
}

// ReadMatrix reads a square matrix of round trips in milliseconds, a row per line, separated by
// commas, semicolons, tabs or spaces. Each pair becomes the mean of its two entries, the diagonal
// 0. It refuses a matrix, with row and column counted from 1, that is empty, not square, or has an
// entry that is no number, negative, infinite or over a minute. It also refuses it if more than 1 %
// of the pairs differ by more than half of the larger entry.
func ReadMatrix(r io.Reader) (*Matrix, error) {
	m := &Matrix{}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<16), 16*maxMatrix)
	rows := 0
	for lines.Scan() {
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if line == "" {
			continue
		}
		rows++
		if err := m.addRow(rows, line); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("row %d: %w", rows+1, err)
	}
	switch {
	case rows == 0:
		return nil, fmt.Errorf("row 1, column 1: the matrix is empty; want n rows of n round trips in milliseconds")
	case rows != m.n:
		return nil, fmt.Errorf("row %d, column 1: the matrix is not square: %d rows of %d columns", min(rows, m.n)+1, rows, m.n)
	case rows < 2:
		return nil, fmt.Errorf("row 1, column 1: one host is too few; want at least 2")
	}
	return m, m.symmetrize()
}

func (m *Matrix) addRow(row int, line string) error {
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == ';' || r == '\t' || r == ' ' })
	if strings.Contains(line, ",") {
		fields = strings.Split(strings.TrimSuffix(line, ","), ",")
	}
	if row == 1 {
		m.n = len(fields)
		if m.n > maxMatrix {
			return fmt.Errorf("row 1, column %d: more than %d hosts", maxMatrix+1, maxMatrix)
		}
	}
	if len(fields) != m.n {
		return fmt.Errorf("row %d, column %d: the matrix is not square: the row has %d columns, the first has %d",
			row, min(len(fields), m.n)+1, len(fields), m.n)
	}
	if row > m.n {
		return fmt.Errorf("row %d, column 1: the matrix is not square: more than %d rows of %d columns", row, m.n, m.n)
	}
	for i, f := range fields {
		v, err := strconv.ParseFloat(strings.TrimSpace(f), 64)
		switch {
		case err != nil:
			return fmt.Errorf("row %d, column %d: %q is not a number; want a round trip in milliseconds", row, i+1, f)
		case math.IsNaN(v):
			return fmt.Errorf("row %d, column %d: NaN; give every pair a round trip", row, i+1)
		case v < 0:
			return fmt.Errorf("row %d, column %d: %v is negative; want a round trip in milliseconds", row, i+1, v)
		case v > maxRTT:
			return fmt.Errorf("row %d, column %d: %v ms is over a minute; want milliseconds", row, i+1, v)
		}
		m.data = append(m.data, float32(v))
	}
	return nil
}

func (m *Matrix) symmetrize() error {
	bad, worst, wi, wj := 0, float32(0), 0, 0
	for i := range m.n {
		m.data[i*m.n+i] = 0
		for j := range i {
			a, b := m.data[i*m.n+j], m.data[j*m.n+i]
			gap := max(a, b) - min(a, b)
			if gap > max(a, b)/2 {
				bad++
				if gap > worst {
					worst, wi, wj = gap, j, i
				}
			}
			m.data[i*m.n+j], m.data[j*m.n+i] = (a+b)/2, (a+b)/2
		}
	}
	if pairs := m.n * (m.n - 1) / 2; bad*100 > pairs {
		return fmt.Errorf("row %d, column %d: asymmetric beyond use: %d of %d pairs differ by more than half, this one by %v ms",
			wi+1, wj+1, bad, pairs, worst)
	}
	return nil
}

// measured is the space of a Matrix: a fixed population, known only by round trips.
type measured struct{ m *Matrix }

func (s measured) size() int                                   { return s.m.n }
func (s measured) rtt(a, b int32) float32                      { return s.m.data[int(a)*s.m.n+int(b)] }
func (s measured) settle(int32, uint64)                        {}
func (s measured) grow(int) int                                { return 0 }
func (s measured) metric() superpeer.Metric                    { return superpeer.Metric{Dims: superpeer.MaxDims} }
func (s measured) point(int32) (p superpeer.Position, ok bool) { return p, false }
func (s measured) bound(k int, live []int32) float64           { return nearestBound(s, k, live) }
func (s measured) shape() (w, h float64)                       { return 0, 0 }
func (s measured) draw(int32) (x, y float64)                   { return 0, 0 }

// boundLimit is up to how many nodes nearestBound is worth its n² round trips.
const boundLimit = 20_000

// nearestBound returns a bound for spaces with only round trips. A node that is no super peer is at
// least as far from its super peer as from its nearest node, so the mean is at least that of the
// n−k smallest of those. It is far below what can be reached.
func nearestBound(s space, k int, live []int32) float64 {
	if len(live) > boundLimit || k >= len(live) {
		return 0
	}
	nearest := make([]float32, len(live))
	parallel(len(live), func(i int) {
		best := float32(math.MaxFloat32)
		for _, b := range live {
			if b != live[i] {
				best = min(best, s.rtt(live[i], b))
			}
		}
		nearest[i] = best
	})
	return meanOfSmallest(nearest, len(live)-k)
}

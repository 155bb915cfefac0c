package superpeer

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync/atomic"

	"github.com/batuta-dev/batuta/internal/superpeer/coordinate"
)

// encodeCoordinate returns the payload of an acknowledged ping: 28 bytes.
func encodeCoordinate(c coordinate.Coordinate) []byte {
	b := make([]byte, 0, 4*(coordinate.Dims+3))
	for _, x := range append(c.Vec[:], c.Height, c.Adjustment, c.Error) {
		b = binary.BigEndian.AppendUint32(b, math.Float32bits(float32(x)))
	}
	return b
}

func decodeCoordinate(b []byte) (c coordinate.Coordinate, ok bool) {
	if len(b) != 4*(coordinate.Dims+3) {
		return c, false
	}
	next := func() float64 {
		x := float64(math.Float32frombits(binary.BigEndian.Uint32(b)))
		b = b[4:]
		return x
	}
	for i := range c.Vec {
		c.Vec[i] = next()
	}
	c.Height, c.Adjustment, c.Error = next(), next(), next()
	return c, c.Check() == nil
}

// counters count messages.
type counters struct {
	sent, received, bytesOut, bytesIn atomic.Uint64
	refused, dropped, probes          atomic.Uint64
}

// slogger is the part of a logger that memberLog needs.
type slogger interface {
	Debug(msg string, args ...any)
	Warn(msg string, args ...any)
}

// Write implements [io.Writer] for memberlist's lines, "[LEVEL] memberlist: text". Its warnings are
// mostly about remote nodes, so they are logged at level debug.
func (l *memberLog) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	if _, rest, ok := bytes.Cut(text, []byte("memberlist: ")); ok {
		text = rest
	}
	l.to.Debug(string(text))
	return len(line), nil
}

package superpeer

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync/atomic"

	"github.com/batuta-dev/batuta/internal/superpeer/coordinate"
)

// encodeCoordinate is what an acknowledged ping carries: 28 bytes.
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

// counters of what has come and gone.
type counters struct {
	sent, received, bytesOut, bytesIn atomic.Uint64
	refused, dropped, probes          atomic.Uint64
}

// slogger is what memberLog needs of a logger.
type slogger interface {
	Debug(msg string, args ...any)
	Warn(msg string, args ...any)
}

// Write implements [io.Writer] for memberlist's lines, "[LEVEL] memberlist: text". What it
// warns of is mostly another node's trouble, and is for who looks for it.
func (l *memberLog) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	if _, rest, ok := bytes.Cut(text, []byte("memberlist: ")); ok {
		text = rest
	}
	l.to.Debug(string(text))
	return len(line), nil
}

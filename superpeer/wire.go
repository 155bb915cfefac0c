package superpeer

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/superpeer/coordinate"
	"github.com/fxamacker/cbor/v2"
)

// Every user message of memberlist begins with a tag.
const (
	tagMessage  = 'm' // a rules.Message, or a message of the driver
	tagAnnounce = 'a' // an announcement, see gossip.go
	tagPing     = 'p' // see ping.go
	tagPong     = 'q'
)

// The driver's own messages, besides those of internal/superpeer.
const (
	kindWhom  rules.Kind = 200 + iota // which nodes do you serve?
	kindServe                         // these: Leases
	kindKnow                          // my list: Told, Nodes, Size, Live; see core.go
)

// Bounds of accepted values.
const (
	maxRTT     = 60_000 // milliseconds
	maxExtent  = 10_000 // of a position, milliseconds
	maxSum     = 1e9    // of savings, milliseconds
	maxVersion = 1 << 31
	maxOthers  = 16
	maxMessage = 1 << 20 // bytes
	maxPacket  = 1200    // bytes sent as a packet; a longer message is sent as a stream
)

// message is a rules.Message on the wire: with uids for processes, and the number of rounds left
// for times. New keys may be added; old readers skip them.
type message struct {
	Kind    rules.Kind `cbor:"0,keyasint"`
	From    uid        `cbor:"1,keyasint"`
	Peer    uid        `cbor:"2,keyasint,omitempty"`
	Token   int32      `cbor:"3,keyasint,omitempty"`
	Version uint32     `cbor:"4,keyasint,omitempty"`
	Slot    int32      `cbor:"5,keyasint,omitempty"`
	RTT     float32    `cbor:"6,keyasint,omitempty"`
	Alt     float32    `cbor:"7,keyasint,omitempty"`
	Load    int32      `cbor:"8,keyasint,omitempty"`
	At      []float32  `cbor:"9,keyasint,omitempty"`
	Others  []referral `cbor:"10,keyasint,omitempty"`
	Peers   []uid      `cbor:"11,keyasint,omitempty"`
	Times   []float32  `cbor:"12,keyasint,omitempty"`
	Leases  []lease    `cbor:"13,keyasint,omitempty"`
	To      uid        `cbor:"14,keyasint,omitempty"`
	Number  uint64     `cbor:"15,keyasint,omitempty"` // see numbers; 0: of a node without numbers

	// With membership core.
	Nodes []introduction `cbor:"16,keyasint,omitempty"` // the sender and those named above
	Told  [][]byte       `cbor:"17,keyasint,omitempty"` // announcements
	Size  int            `cbor:"18,keyasint,omitempty"` // nodes in the overlay
	Live  int            `cbor:"19,keyasint,omitempty"` // super peers
	Core  bool           `cbor:"20,keyasint,omitempty"` // the sender is in the core, or about to be
}

type referral struct {
	_     struct{} `cbor:",toarray"`
	Peer  uid
	Token int32
}

type lease struct {
	_    struct{} `cbor:",toarray"`
	Peer uid
	Left rules.Round
	RTT  float32
	Alt  float32
	At   []float32
}

var (
	encoder = must(cbor.EncOptions{ShortestFloat: cbor.ShortestFloat16}.EncMode())
	decoder = must(cbor.DecOptions{MaxArrayElements: 1 << 16, MaxMapPairs: 64, MaxNestedLevels: 6,
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // only for invalid options in this file
	}
	return v
}

// encode encodes m for round now. Only the driver calls encode and decode.
func (p *peers) encode(m *rules.Message, now rules.Round) ([]byte, error) {
	w := message{
		Kind: m.Kind, From: p.self, Peer: p.uidOf(m.Peer), Token: m.Token, Version: m.Version, Slot: m.Slot,
		RTT: m.RTT, Alt: m.Alt, Load: m.Load, At: coordinates(&m.At), Times: m.Times, To: p.uidOf(m.To),
	}
	w.Number = p.numbers.next(w.To)
	for _, r := range m.Others {
		w.Others = append(w.Others, referral{Peer: p.uidOf(r.Peer), Token: r.Token})
	}
	for _, x := range m.Peers {
		w.Peers = append(w.Peers, p.uidOf(x))
	}
	for i := range m.Leases {
		l := &m.Leases[i]
		w.Leases = append(w.Leases, lease{Peer: p.uidOf(l.Peer), Left: l.Until - now, RTT: l.RTT, Alt: l.Alt, At: coordinates(&l.At)})
	}
	if p.adorn != nil {
		p.adorn(&w)
	}
	body, err := encoder.Marshal(&w)
	return append([]byte{tagMessage}, body...), err
}

func coordinates(at *rules.Position) []float32 {
	if *at == (rules.Position{}) {
		return nil
	}
	return append(at.X[:], at.Height)
}

// limits bound the values in a message of an overlay.
type limits struct {
	now      rules.Round
	lease    rules.Round
	capacity int // 0: none
	nodes    int
	tokens   int
}

// errBad is for a message that cannot be true, and is dropped.
type errBad struct{ what string }

// errStranger means that the sender is not listed: it is not part of the overlay, or we have missed
// its arrival.
var errStranger = errBad{"its sender is not listed"}

func (e errBad) Error() string { return "message refused: " + e.what }

// decode decodes a message and checks all of it: the result can be passed to a Node.
func (p *peers) decode(raw []byte, l limits) (m rules.Message, err error) {
	if len(raw) > maxMessage {
		return m, errBad{fmt.Sprintf("%d bytes, at most %d are read", len(raw), maxMessage)}
	}
	var w message
	if err := decoder.Unmarshal(raw, &w); err != nil {
		return m, errBad{err.Error()}
	}
	if p.most > 0 && w.From != p.self && (w.To == 0 || w.To == p.self) {
		p.meet(&w, l.now)
	}
	from, listed := p.of(w.From)
	switch {
	case w.From == p.self:
		return m, errBad{"it names this node as its sender"}
	case !listed:
		return m, errStranger
	case w.To != 0 && w.To != p.self:
		return m, errBad{"it was for another"}
	}
	m = rules.Message{
		Kind: w.Kind, From: from.peer, Peer: rules.None, Token: w.Token, Version: w.Version,
		Slot: w.Slot, RTT: w.RTT, Alt: w.Alt, Load: w.Load, Key: uint64(w.From),
	}
	if w.Peer != 0 {
		m.Peer = p.handle(w.Peer)
	}
	if err := w.check(l); err != nil {
		return m, err
	}
	if m.At, err = position(w.At); err != nil {
		return m, err
	}
	if m.Peer == rules.None && slices.Contains(namesPeer, m.Kind) {
		return m, errBad{"it names no listed node"}
	}
	if err := p.lists(&w, &m, l); err != nil {
		return m, err
	}
	if w.Number != 0 && !p.numbers.fresh(w.From, w.Number) {
		return m, errBad{"it has come before"}
	}
	if p.read != nil {
		p.read(&w)
	}
	return m, nil
}

// namesPeer are the kinds that require a Peer.
var namesPeer = []rules.Kind{rules.Move, rules.Confirm, rules.Recommend}

// check refuses impossible values.
func (w *message) check(l limits) error {
	switch {
	case !knownKind(w.Kind):
		return errBad{fmt.Sprintf("kind %d", w.Kind)}
	case w.Token < 0 || int(w.Token) >= l.tokens:
		return errBad{fmt.Sprintf("token %d of %d", w.Token, l.tokens)}
	case w.Version > maxVersion:
		return errBad{fmt.Sprintf("version %d", w.Version)}
	case w.Slot < 0 || w.Load < 0 || w.Size < 0 || w.Live < 0:
		return errBad{"a negative count"}
	case !trip(w.RTT):
		return errBad{fmt.Sprintf("a round trip of %v ms", w.RTT)}
	case !(math.Abs(float64(w.Alt)) <= maxSum):
		return errBad{fmt.Sprintf("%v ms saved", w.Alt)}
	case len(w.Others) > maxOthers:
		return errBad{fmt.Sprintf("%d referrals", len(w.Others))}
	case len(w.Peers) > l.nodes || len(w.Times) > l.nodes:
		return errBad{"more nodes than there are"}
	case len(w.Leases) > l.nodes || l.capacity > 0 && len(w.Leases) > l.capacity:
		return errBad{fmt.Sprintf("%d leases, with capacity %d and %d nodes", len(w.Leases), l.capacity, l.nodes)}
	}
	for _, t := range w.Times {
		if !trip(t) {
			return errBad{fmt.Sprintf("a round trip of %v ms", t)}
		}
	}
	return nil
}

func knownKind(k rules.Kind) bool {
	return k >= rules.Attach && k <= rules.Recommend ||
		k >= rules.Offer && k <= rules.Transfer ||
		k >= rules.Assess && k <= rules.Hush ||
		k >= rules.Grant && k <= rules.Here ||
		k == kindWhom || k == kindServe || k == kindKnow
}

// trip reports whether ms may be a round trip; negative means: not measured.
func trip(ms float32) bool { return ms >= -maxRTT && ms <= maxRTT }

func position(at []float32) (p rules.Position, err error) {
	if len(at) == 0 {
		return p, nil
	}
	if len(at) != rules.MaxDims+1 {
		return p, errBad{fmt.Sprintf("a position of %d numbers", len(at))}
	}
	for _, x := range at {
		if !(math.Abs(float64(x)) <= maxExtent) {
			return p, errBad{fmt.Sprintf("a position %v ms away", x)}
		}
	}
	copy(p.X[:], at)
	if p.Height = at[rules.MaxDims]; p.Height < 0 {
		return p, errBad{"a position below the ground"}
	}
	return p, nil
}

// lists fills in the listed nodes. No node is named twice.
func (p *peers) lists(w *message, m *rules.Message, l limits) error {
	for _, r := range w.Others {
		if peer := p.handle(r.Peer); peer != rules.None && r.Token >= 0 && int(r.Token) < l.tokens {
			m.Others = append(m.Others, rules.Referral{Peer: peer, Token: r.Token})
		}
	}
	seen := map[rules.Peer]bool{}
	for _, u := range w.Peers {
		peer := p.handle(u) // an unlisted node keeps its position: answers go by the order
		if peer != rules.None && seen[peer] {
			peer = rules.None
		}
		seen[peer] = true
		m.Peers = append(m.Peers, peer)
	}
	m.Times = w.Times
	clear(seen)
	for _, x := range w.Leases {
		peer := p.handle(x.Peer)
		at, err := position(x.At)
		if err != nil || !trip(x.RTT) || !(math.Abs(float64(x.Alt)) <= maxSum) {
			return errBad{"a lease that cannot be true"}
		}
		if peer == rules.None || seen[peer] {
			continue
		}
		seen[peer] = true
		m.Leases = append(m.Leases, rules.Lease{
			Peer: peer, Until: l.now + max(0, min(x.Left, l.lease)), RTT: x.RTT, Alt: x.Alt, At: at, Key: uint64(x.Peer),
		})
	}
	return nil
}

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

// numbers are the numbers of messages. Each number is for a single receiver and increases, so that
// replayed packets have no effect on any node.
type numbers struct {
	began    time.Time
	sent     map[uid]uint64   // the last, by receiver
	received map[uid][]series // by sender
}

func newNumbers() numbers { return numbers{time.Now(), map[uid]uint64{}, map[uid][]series{}} }

// series are the numbers of a sender from first to top that have come: of the last 64 those in seen,
// before them all. A sender has several after the loss of 64 messages in a row, after it was
// forgotten, and if a malicious node has sent a number in its name: the next of its own is fresh all
// the same.
type series struct{ first, top, seen uint64 }

// maxSeries is how many are kept of a sender: the longest.
const maxSeries = 8

// next returns the number of a message to a node. The first is the time, which is higher than all
// numbers that were forgotten, also when the clock was set back.
func (n *numbers) next(to uid) uint64 {
	if _, ok := n.sent[to]; !ok {
		n.sent[to] = uint64(n.began.Add(time.Since(n.began)).UnixMicro())
	}
	n.sent[to]++
	return n.sent[to]
}

// fresh reports whether a message is new, and records it.
func (n *numbers) fresh(from uid, number uint64) bool {
	list := n.received[from]
	for i := range list {
		if s := &list[i]; s.first <= number && number <= s.top {
			bit := s.top - number // a shift by 64 or more results in 0
			come := bit >= 64 || s.seen>>bit&1 == 1
			s.seen |= 1 << bit
			return !come
		}
	}
	var below *series // the highest: a lower one would grow over it, and lose what that has received
	for i := range list {
		if s := &list[i]; s.top < number && (below == nil || s.top > below.top) {
			below = s
		}
	}
	if below != nil && number-below.top <= 64 {
		below.seen, below.top = below.seen<<(number-below.top)|1, number
		return true
	}
	if len(list) == maxSeries {
		shortest := slices.MinFunc(list, func(a, b series) int { return cmp.Compare(a.top-a.first, b.top-b.first) })
		list = slices.DeleteFunc(list, func(s series) bool { return s == shortest })
	}
	n.received[from] = append(list, series{number, number, 1})
	return true
}

// forget removes unlisted nodes once there are far more than listed nodes. Messages of unlisted
// nodes are not read.
func (n *numbers) forget(nodes int, listed func(uid) bool) {
	if len(n.sent)+len(n.received) < 4*nodes+128 {
		return
	}
	maps.DeleteFunc(n.sent, func(u uid, _ uint64) bool { return !listed(u) })
	maps.DeleteFunc(n.received, func(u uid, _ []series) bool { return !listed(u) })
}

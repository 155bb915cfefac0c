package superpeer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/superpeer/coordinate"
)

// three are a list of three nodes: this one and two others.
func three() *peers {
	own := meta{method: rules.Tokens, fraction: 0.5, round: DefaultRound, id: "a"}
	p := newPeers(own)
	p.self = 1
	for u := range uid(3) {
		p.NotifyJoin(&memberlist.Node{Name: (u + 1).name(), Addr: net.IPv4(127, 0, 0, 1), Port: uint16(u), Meta: own.encode()})
	}
	return p
}

var bounds = limits{now: 5, lease: 10, capacity: 4, nodes: 3, tokens: 8}

func TestAMessageComesBackAsItWent(t *testing.T) {
	p := three()
	m := rules.Message{
		Kind: rules.Transfer, To: 0, Peer: 2, Token: 3, Version: 9, Slot: 2, RTT: 12.5, Alt: 80, Load: 1,
		At:     rules.Position{X: [4]float32{1, -2, 3, 4}, Height: 5},
		Others: []rules.Referral{{Peer: 1, Token: 2}}, Peers: []rules.Peer{1, 2}, Times: []float32{-1, 3},
		Leases: []rules.Lease{{Peer: 2, Until: 9, RTT: 7, Alt: -1, Key: 3}},
	}
	p.self = 2 // the second node sends it
	raw, err := p.encode(&m, 4)
	if err != nil {
		t.Fatal(err)
	}
	p.self = 1
	got, err := p.decode(raw[1:], bounds)
	if err != nil {
		t.Fatal(err)
	}
	m.From, m.Key, m.To = 1, 2, 0
	m.Leases = []rules.Lease{{Peer: 2, Until: 10, RTT: 7, Alt: -1, Key: 3}} // five rounds are left, here and there
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", m) {
		t.Errorf("got\n%+v, want\n%+v", got, m)
	}
}

func TestWhatCannotBeTrueIsRefused(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	many := make([]lease, 10_000)
	for i := range many {
		many[i] = lease{Peer: uid(i + 2)}
	}
	for name, w := range map[string]message{
		"a stranger":             {From: 77},
		"ourselves":              {From: 1},
		"an unknown kind":        {Kind: 50},
		"NaN as round trip":      {RTT: nan},
		"an endless round trip":  {RTT: inf},
		"a day's round trip":     {RTT: 86_400_000},
		"NaN saved":              {Alt: nan},
		"a boundless saving":     {Alt: 2e9},
		"NaN as position":        {At: []float32{0, nan, 0, 0, 0}},
		"an absurd position":     {At: []float32{0, 0, 1e6, 0, 0}},
		"a position underground": {At: []float32{0, 0, 0, 0, -1}},
		"half a position":        {At: []float32{1, 2}},
		"a token of none":        {Token: 8},
		"a negative token":       {Token: -1},
		"a version of the end":   {Version: math.MaxUint32},
		"a negative slot":        {Slot: -2},
		"a negative number":      {Size: -1},
		"negative super peers":   {Live: -1},
		"10,000 clients":         {Kind: rules.Transfer, Leases: many},
		"one client too many":    {Kind: rules.Roll, Leases: make([]lease, 5)},
		"a lease of NaN":         {Kind: rules.Roll, Leases: []lease{{Peer: 3, RTT: nan}}},
		"more peers than nodes":  {Kind: rules.Assess, Peers: make([]uid, 4)},
		"times of NaN":           {Kind: rules.Assessed, Times: []float32{nan}},
		"a move to nobody":       {Kind: rules.Move, Peer: 55},
		"a hundred referrals":    {Kind: rules.Full, Others: make([]referral, 100)},
	} {
		if w.From == 0 {
			w.From = 2
		}
		if w.Kind == 0 {
			w.Kind = rules.Attach
		}
		raw, err := encoder.Marshal(&w)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := three().decode(raw, bounds); err == nil {
			t.Errorf("%s was believed: %+v", name, m)
		}
	}
	if _, err := three().decode(make([]byte, maxMessage+1), bounds); err == nil {
		t.Error("more than a message may hold was read")
	}
}

func TestNobodyIsNamedTwice(t *testing.T) {
	raw, err := encoder.Marshal(&message{Kind: rules.Assess, From: 2, Peers: []uid{3, 3, 9}, Leases: []lease{{Peer: 3}, {Peer: 3}, {Peer: 9}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := three().decode(raw, bounds)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(m.Peers) != "[2 -1 -1]" || len(m.Leases) != 1 {
		t.Errorf("peers %v and %d leases; want each once, and who is not listed as nobody in its place", m.Peers, len(m.Leases))
	}
}

func told(token int32, version uint32, holder uid) *notice {
	n := &notice{holder: holder, seq: 1, load: 1, mean: 2}
	n.Token, n.Version, n.Spare = token, version, 3
	return n
}

func TestAFalseAnnouncementIsRefused(t *testing.T) {
	for name, change := range map[string]func(*notice){
		"NaN as price":          func(n *notice) { n.Price = float32(math.NaN()) },
		"a negative gain":       func(n *notice) { n.Gain = -1 },
		"an endless loss":       func(n *notice) { n.Loss = float32(math.Inf(1)) },
		"a height underground":  func(n *notice) { n.At.Height = -3 },
		"more places than C":    func(n *notice) { n.Spare = 5 },
		"10,000 clients":        func(n *notice) { n.load = 10_000 },
		"more in all than C":    func(n *notice) { n.load, n.Spare = 3, 2 },
		"no limit where one is": func(n *notice) { n.Spare = math.MaxInt32 },
		"a token of none":       func(n *notice) { n.Token = 8 },
	} {
		n := told(1, 1, 2)
		change(n)
		if got, ok := decodeNotice(n.encode()[1:], 8, 4); ok {
			t.Errorf("%s was believed: %+v", name, got)
		}
	}
	n := told(1, 1, 2)
	n.At = rules.Position{X: [4]float32{1, -20.5, 0, 300}, Height: 4}
	got, ok := decodeNotice(n.encode()[1:], 8, 4)
	if !ok || got != *n {
		t.Errorf("an honest one came back as %+v, want %+v", got, *n)
	}
	if size := len(n.encode()); size > tellSize {
		t.Errorf("an announcement takes %d bytes, want at most %d", size, tellSize)
	}
}

// TestWhatOneLiarCanDo floods a node with announcements and renewals of other nodes' tokens
// under ever higher versions.
func TestWhatOneLiarCanDo(t *testing.T) {
	f, b := fence{}, newBook()
	for token := range int32(8) {
		f.allow(token, 5, 0, 8)
		b.learn(told(token, 5, uid(token+10)), 0)
	}
	const rounds, liar = 100, uid(99)
	seq := uint32(1)
	for now := rules.Round(1); now <= rounds; now++ {
		for range 100 {
			for token := range int32(8) {
				for _, leap := range []uint32{1, 16, 1000, 1 << 30} {
					v := f[token].version + leap
					if ok, _ := f.allow(token, v, now, 8); ok {
						seq++
						n := told(token, v, liar)
						n.seq = seq
						b.learn(n, now)
					}
				}
			}
		}
	}
	for token := range int32(8) {
		if v := f[token].version; v > 5+firstLeap+rounds*leap {
			t.Errorf("token %d was driven to version %d in %d rounds: none would be left one day", token, v, rounds)
		}
	}
	taken := 0
	for _, n := range b.snapshot() {
		if n.holder == liar {
			taken++
		}
	}
	if taken > 1 {
		t.Errorf("one liar is named as the holder of %d tokens, want one at most", taken)
	}
}

// TestAnHonestRegistrarIsNotFencedOff: a registrar that nobody answers raises a token's version
// with each node that it asks, up to eight times a round; whoever is asked at last must take it.
func TestAnHonestRegistrarIsNotFencedOff(t *testing.T) {
	for silent := range rules.Round(200) {
		f := fence{}
		f.allow(3, 1, 0, 8)
		version := uint32(1)
		for range silent + 1 {
			version += 8
		}
		if ok, _ := f.allow(3, version, silent+1, 8); !ok {
			t.Fatalf("after %d rounds of asking others, version %d is refused", silent+1, version)
		}
		if ok, _ := f.allow(3, version+8, silent+1, 8); !ok {
			t.Fatalf("a second question in the round is refused after %d", silent+1)
		}
	}
}

func TestGossipIsBoundedInBytes(t *testing.T) {
	b := newBook()
	const tokens, rounds = 300, 30
	seq, sent := uint32(1), 0
	for now := range rules.Round(rounds) {
		b.expire(now, 1, tokens)
		seq++
		for token := range int32(tokens) {
			n := told(token, 1, uid(token+1))
			n.seq = seq
			b.learn(n, now)
		}
		for range 30 { // packets that memberlist sends in a round, and more
			for _, raw := range b.broadcasts(3, 1400, true) {
				sent += len(raw) + 3
			}
		}
	}
	if most := rounds*tellRate + tellBurst; sent > most {
		t.Errorf("%d bytes were told in %d rounds, want at most %d however much there is to tell", sent, rounds, most)
	}
}

func TestBytesFromAnywhereDoNotPanic(t *testing.T) {
	p := three()
	m := rules.Message{Kind: rules.Transfer, Peer: 2, Leases: []rules.Lease{{Peer: 2}}}
	raw, _ := p.encode(&m, 0)
	announced := told(1, 1, 2).encode()
	seed := uint64(1)
	for range 20_000 {
		for _, good := range [][]byte{raw, announced, p.own.encode(), encodeCoordinate(coordinate.Coordinate{})} {
			b := bytes.Clone(good)
			for range 3 {
				seed = rules.Mix(seed + 1)
				b[seed%uint64(len(b))] = byte(seed >> 32)
			}
			b = b[:len(b)-int(seed>>40)%len(b)]
			if len(b) > 1 {
				_, _ = p.decode(b[1:], bounds)
				decodeNotice(b[1:], 8, 4)
			}
			_, _ = decodeMeta(b)
			decodeCoordinate(b)
		}
	}
}

func TestMetaTellsWhatDiffers(t *testing.T) {
	p := three()
	for want, change := range map[string]func(*meta){
		"fraction is 0.25":   func(m *meta) { m.fraction = 0.25 },
		"fraction is NaN":    func(m *meta) { m.fraction = math.NaN() },
		"capacity is 9":      func(m *meta) { m.capacity = 9 },
		"that of an overlay": func(m *meta) { m.id = "\x1b[2J" },
	} {
		m := p.own
		change(&m)
		err := p.NotifyAlive(&memberlist.Node{Name: uid(9).name(), Addr: net.IPv4(127, 0, 0, 1), Meta: m.encode()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	if p.NotifyAlive(&memberlist.Node{Name: "a stranger", Meta: p.own.encode()}) == nil {
		t.Error("a name that is no number was let in")
	}
	if b := binary.BigEndian.AppendUint16(nil, 1); p.NotifyAlive(&memberlist.Node{Name: uid(9).name(), Meta: b}) == nil {
		t.Error("two bytes were taken for a description")
	}
}

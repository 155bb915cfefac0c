package superpeer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// Status is what a node knows of itself and its overlay.
type Status struct {
	ID       string  `json:"id"`
	Overlay  string  `json:"overlay"`
	Address  string  `json:"address"`
	Method   string  `json:"method"`
	Fraction float64 `json:"fraction"`

	Membership string  `json:"membership"` // full or core
	SuperPeer  bool    `json:"super_peer"`
	Token      *int32  `json:"token"` // null on an ordinary node
	Version    uint32  `json:"version,omitempty"`
	Home       *Peer   `json:"-"` // nil on a super peer, and while no super peer serves the node
	RTT        float64 `json:"-"` // to the home, milliseconds; negative: not measured or none
	Clients    int     `json:"clients"`
	Capacity   int     `json:"capacity"` // 0: no limit
	Nodes      int     `json:"nodes"`
	Wanted     int     `json:"wanted"` // super peers
	Live       int     `json:"live"`   // super peers that this node knows of
	Round      float64 `json:"round_seconds"`
	Encrypted  bool    `json:"encrypted"`

	// Home and RTT as JSON: null where there is none.
	HomeID      *string  `json:"home"`
	HomeAddress string   `json:"home_address,omitempty"`
	HomeService string   `json:"home_service,omitempty"`
	RTTms       *float64 `json:"rtt_ms"`

	ShareWrong float64  `json:"share_wrong_seconds"` // for how long Live has not been Wanted
	Unserved   float64  `json:"unserved_seconds"`    // for how long no super peer has served this node
	Warnings   []string `json:"warnings"`            // what has been wrong for a while: Live for 30 rounds, service for 10

	Requirements Requirements `json:"requirements"`
	Traffic      Traffic      `json:"traffic"`
}

// Requirements are the four of docs/sources.md, "Coordinator", for super peers, as far as this node
// can judge them.
type Requirements struct {
	Latency  Requirement `json:"1_low_latency"`
	Spread   Requirement `json:"2_spread_evenly"`
	Share    Requirement `json:"3_predefined_share"`
	Capacity Requirement `json:"4_bounded_load"`
}

// Requirement is the state of a requirement.
type Requirement struct {
	Holds bool   `json:"holds"`
	Says  string `json:"says"`
}

// Traffic counts messages since the start, without memberlist's own.
type Traffic struct {
	Sent     uint64 `json:"messages_sent"`
	Received uint64 `json:"messages_received"`
	BytesOut uint64 `json:"bytes_sent"`
	BytesIn  uint64 `json:"bytes_received"`
	Probes   uint64 `json:"probes"`
	Refused  uint64 `json:"refused"` // invalid messages
	Dropped  uint64 `json:"dropped"` // messages without room
}

// Status returns the present state.
func (m *Member) Status() (s Status) {
	v := m.view.Load()
	cfg, c := m.cfg.node(rules.NewRing(nil)), &m.counts
	s = Status{
		ID: v.self.ID, Overlay: m.cfg.Overlay, Address: m.Address(), Method: string(m.cfg.Method), Fraction: m.cfg.Fraction, Membership: string(m.cfg.Membership),
		SuperPeer: v.super, Home: v.home, RTT: round3(v.rtt), Clients: len(v.clients), Capacity: m.cfg.Capacity,
		Nodes: v.nodes, Wanted: cfg.Count(v.nodes), Round: m.cfg.Round.Seconds(), Encrypted: m.ring != nil,
		Traffic: Traffic{c.sent.Load(), c.received.Load(), c.bytesOut.Load(), c.bytesIn.Load(), c.probes.Load(), c.refused.Load(), c.dropped.Load()},
	}
	if v.super {
		s.Token, s.Version = &v.token, v.version
	}
	if v.home != nil {
		s.HomeID, s.HomeAddress, s.HomeService = &v.home.ID, v.home.Address, v.home.Service
		if v.rtt >= 0 {
			s.RTTms = new(s.RTT)
		}
	}
	heard := m.heard(v)
	s.Live, s.ShareWrong, s.Unserved = v.live, v.shareWrong.Seconds(), v.unserved.Seconds()
	s.Warnings = s.warnings(m.cfg.Round)
	s.Requirements = judge(&s, heard, &cfg.Metric)
	return s
}

// heard returns all known super peers, with this node's present load.
func (m *Member) heard(v *view) []notice {
	kept := slices.DeleteFunc(m.book.snapshot(), func(n notice) bool { return n.holder == m.peers.self })
	if v.super {
		own := notice{holder: m.peers.self, load: int32(len(v.clients)), mean: meanOf(v.clients, func(c *Client) float32 { return float32(c.RTT) })}
		at := m.place.Coordinate()
		own.Token, own.At = v.token, at.Position()
		kept = append(kept, own)
	}
	return kept
}

// evenLoads is the least value of Jain's index of fairness at which loads count as even: below one
// half, fewer than half of the super peers serve most nodes.
const evenLoads = 0.5

func judge(s *Status, heard []notice, metric *rules.Metric) (r Requirements) {
	served, ways, most := 0, 0.0, 0
	sum, squares := 0.0, 0.0
	for _, n := range heard {
		load := float64(n.load)
		sum, squares, most = sum+load, squares+load*load, max(most, int(n.load))
		if n.mean >= 0 {
			ways += load * float64(n.mean)
			served += int(n.load)
		}
	}
	mean := ways / float64(max(served, 1))
	ordinary := s.Nodes - len(heard)
	r.Latency = Requirement{
		Holds: s.SuperPeer || s.Home != nil,
		Says:  fmt.Sprintf("%s; %d of %d ordinary nodes are served, their mean round trip is %.1f ms", ownWay(s), int(sum), max(ordinary, 0), mean),
	}
	jain := 1.0
	if squares > 0 {
		jain = sum * sum / (float64(len(heard)) * squares)
	}
	r.Spread = Requirement{
		Holds: jain >= evenLoads,
		Says:  fmt.Sprintf("loads are even to %.2f of 1 (Jain); the nearest two super peers are about %s apart", jain, closest(heard, metric)),
	}
	r.Share = Requirement{Holds: s.Live == s.Wanted, Says: fmt.Sprintf("%d super peers live, ⌈%.4g × %d nodes⌉ = %d wanted", s.Live, s.Fraction, s.Nodes, s.Wanted)}
	if s.Method == string(rules.Prefix) {
		r.Share.Says = fmt.Sprintf("%d super peers live, 2^k = %d wanted", s.Live, s.Wanted)
	}
	r.Capacity = Requirement{Holds: s.Capacity == 0 || most <= s.Capacity, Says: fmt.Sprintf("the busiest serves %d; no limit is set", most)}
	if s.Capacity > 0 {
		r.Capacity.Says = fmt.Sprintf("the busiest serves %d, the limit is %d", most, s.Capacity)
	}
	return r
}

func ownWay(s *Status) string {
	switch {
	case s.SuperPeer:
		return "this node is a super peer"
	case s.Home == nil:
		return "this node has no super peer now"
	case s.RTT < 0:
		return "this node's super peer is " + s.Home.ID
	}
	return fmt.Sprintf("this node's super peer %s is %.1f ms away", s.Home.ID, s.RTT)
}

// maxCompared is the number of super peers up to which all pairs are compared.
const maxCompared = 500

func closest(heard []notice, metric *rules.Metric) string {
	least := math.Inf(1)
	if len(heard) <= maxCompared {
		for i := range heard {
			for j := range i {
				least = min(least, float64(metric.Estimate(&heard[i].At, &heard[j].At)))
			}
		}
	}
	if math.IsInf(least, 1) {
		return "– ms"
	}
	return fmt.Sprintf("%.0f ms", least)
}

func round3(x float64) float64 { return math.Round(1000*x) / 1000 }

// Group is a super peer and its clients.
type Group struct {
	Peer
	Token   int32    `json:"token"`
	X       float64  `json:"x"` // its coordinate, milliseconds
	Y       float64  `json:"y"`
	Self    bool     `json:"self,omitempty"` // the node that answers
	Answers bool     `json:"answers"`        // false: it did not send its clients
	Clients []Placed `json:"clients"`
}

// Placed is a client and its coordinate.
type Placed struct {
	Client
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Map asks all super peers that this node knows for their clients, until all have answered, ctx
// ends, or two rounds have passed. It returns what it has then: Group.Answers is false for the rest.
func (m *Member) Map(ctx context.Context) ([]Group, error) {
	v := m.view.Load()
	var list []Group
	waiting, q := map[int]chan []Client{}, &question{}
	defer func() { _ = m.call(context.Background(), func(d *driver) { delete(d.asked, q) }) }() // unless it is closed
	for _, n := range m.heard(v) {
		g := Group{Token: n.Token, X: float64(n.At.X[0]), Y: float64(n.At.X[1]), Clients: []Placed{}}
		if n.holder == m.peers.self {
			g.Peer, g.Self, g.Answers, g.Clients = v.self, true, true, placed(v.clients)
			list = append(list, g)
			continue
		}
		k, ok := m.peers.of(n.holder)
		if !ok {
			continue
		}
		g.Peer = k.Peer
		answer := make(chan []Client, 1)
		if err := m.call(ctx, func(d *driver) { d.askWhom(k, q, answer) }); err != nil {
			return nil, err
		}
		waiting[len(list)] = answer
		list = append(list, g)
	}
	late, cancel := context.WithTimeout(ctx, 2*m.cfg.Round)
	defer cancel()
	for i, answer := range waiting {
		select {
		case clients := <-answer:
			list[i].Answers, list[i].Clients = true, placed(clients)
		case <-late.Done():
			select { // all had the same time
			case clients := <-answer:
				list[i].Answers, list[i].Clients = true, placed(clients)
			default:
			}
		}
	}
	return list, nil
}

func placed(clients []Client) []Placed {
	list := make([]Placed, len(clients))
	for i, c := range clients {
		list[i] = Placed{c, float64(c.at.X[0]), float64(c.at.X[1])}
	}
	return list
}

// call makes the goroutine that owns the Node call f.
func (m *Member) call(ctx context.Context, f func(*driver)) error {
	done := make(chan struct{})
	select {
	case m.driver.calls <- func() { f(m.driver); close(done) }:
		<-done
		return nil
	case <-m.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Rounds after which a state that ends by itself counts as trouble, and after which the log reports it again.
const (
	shareTrouble  = 30
	servedTrouble = 10
	repeatTrouble = 300
)

// trouble is how long something has been wrong, in rounds.
type trouble struct {
	rounds rules.Round
	said   rules.Round // value of rounds at the last report in the log; 0: none yet
}

// count records that passed further rounds were wrong, or that all is right. report: the log
// reports that it is wrong; over: that it has ended.
func (t *trouble) count(wrong bool, passed, after rules.Round) (report, over bool) {
	if !wrong {
		over = t.said > 0
		*t = trouble{}
		return false, over
	}
	t.rounds += passed
	report = t.rounds >= after && (t.said == 0 || t.rounds-t.said >= repeatTrouble)
	if report {
		t.said = t.rounds
	}
	return report, false
}

// complain logs what has been wrong for a while; it runs once a round.
func (d *driver) complain(passed rules.Round) {
	log := d.m.cfg.Logger
	_, _, super := d.node.Holding()
	live, wanted := d.group.supers(super), d.cfg.Count(d.size)
	switch report, over := d.share.count(live != wanted, passed, shareTrouble); {
	case report:
		log.Warn("the number of super peers is wrong", "live", live, "wanted", wanted, "nodes", d.size, "for", d.lasted(&d.share).String(), "action", shareAction)
	case over:
		log.Info("the number of super peers is right again", "live", live)
	}
	unserved := !super && d.node.Home() == rules.None
	switch report, over := d.unserved.count(unserved, passed, servedTrouble); {
	case report:
		log.Warn("no super peer serves this node", "live", live, "wanted", wanted, "nodes", d.size, "for", d.lasted(&d.unserved).String(), "action", servedAction)
	case over:
		log.Info("this node is served again, or is a super peer")
	}
}

// What to do about trouble.
const (
	shareAction  = "check the load of the machines and the loss of the network; a longer Config.Round on all nodes helps"
	servedAction = "check that super peers can be reached and have room (Config.Capacity, Config.Fraction)"
)

// lasted returns how long t has lasted.
func (d *driver) lasted(t *trouble) time.Duration { return time.Duration(t.rounds) * d.m.cfg.Round }

// warnings returns texts for users on what has been wrong for a while.
func (s *Status) warnings(round time.Duration) []string {
	list := []string{}
	if s.ShareWrong >= (shareTrouble * round).Seconds() {
		list = append(list, fmt.Sprintf("%d super peers live, %d are wanted, for %.0f s: %s", s.Live, s.Wanted, s.ShareWrong, shareAction))
	}
	if s.Unserved >= (servedTrouble * round).Seconds() {
		list = append(list, fmt.Sprintf("no super peer has served this node for %.0f s: %s", s.Unserved, servedAction))
	}
	return list
}

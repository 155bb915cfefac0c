package api

import (
	"github.com/batuta-dev/batuta"
)

// Status is the answer of /v1/status.
type Status struct {
	ID            string   `json:"id"`
	Cluster       string   `json:"cluster"`
	Election      string   `json:"election"`
	Algorithm     string   `json:"algorithm"`
	Guarantee     string   `json:"guarantee"`
	Fencing       bool     `json:"fencing"`
	Role          string   `json:"role"`
	Electing      bool     `json:"electing"` // it takes part in an election
	Leader        *string  `json:"leader"`   // null while undefined
	Epoch         uint64   `json:"epoch"`    // of token, or the highest known while undefined
	Token         *string  `json:"token"`    // "epoch:leader"; null while undefined
	Since         Stamp    `json:"since"`
	Members       []Member `json:"members"`
	Incarnation   Serial   `json:"incarnation"`
	Uptime        float64  `json:"uptime"` // seconds
	Listen        string   `json:"listen"`
	Advertise     string   `json:"advertise"` // the address that members use; empty: not known yet
	HTTP          string   `json:"http"`
	Version       string   `json:"version"`
	Access        string   `json:"access"` // what the client may do: operate or read
	Messages      Messages `json:"messages"`
	Timing        Timing   `json:"timing"`
	Headroom      float64  `json:"headroom"` // the fraction of t that the longest silence and stall of the last 10 minutes have left; below 0 they would have caused a suspicion
	Rhythm        Rhythm   `json:"rhythm"`
	Security      string   `json:"security"`         // insecure, secret or tls: what an unauthenticated client has to overcome
	Transport     string   `json:"transport"`        // tls, or insecure: messages of members can be read and forged
	Certificate   Stamp    `json:"certificate_ends"` // the member's; null: none in a file
	Authority     Stamp    `json:"authority_ends"`   // of the authority of its certificate
	Standing      string   `json:"standing"`         // eligible, or why the member is not a candidate
	StandingWhy   string   `json:"standing_why"`     // the same as text, with a failing check's last output; empty: it is a candidate
	StandingSince Stamp    `json:"standing_since"`
	DiskError     string   `json:"disk_error"`  // why its state cannot be saved; empty: it can
	LogDropped    uint64   `json:"log_dropped"` // log records that were not read in time

	Ready bool `json:"ready"` // there is a leader, and its work serves
	Side  Side `json:"side"`  // how much of the cluster is on its side of a partition
	Wire  int  `json:"wire"`  // version of the protocol between members; 0: a different protocol
	State int  `json:"state"` // version of the layout of the data directory; 0: there is none

	Paused *Paused `json:"paused"` // null: the cluster is not paused

	Meta map[string]string `json:"meta,omitempty"` // this member's metadata, absent: none; members has that of the rest

	Drained []string `json:"drained,omitempty"` // members that lead no named election, by a drain; absent: none

	Refused map[string]uint64 `json:"refused"` // connections refused, by either end, by reason

	// Only of quorum.
	Takeover   string  `json:"takeover,omitempty"`    // attested, lease or refused: when the next leader may lead; see openapi.yaml
	Unattested string  `json:"unattested,omitempty"`  // why no guard attests the end of this member's process
	ClockDrift float64 `json:"clock_drift,omitempty"` // the largest difference in rate of two clocks, as a fraction
	Quorum     *Quorum `json:"quorum,omitempty"`

	// Only of the ring algorithms.
	Participating *bool   `json:"participating,omitempty"`
	Successor     *string `json:"successor,omitempty"` // empty while there is no further member
}

// Paused is a pause of the cluster.
type Paused struct {
	Until  Stamp  `json:"until"`
	Leader string `json:"leader"` // the member that keeps leadership; empty: the next leader does
}

func pausedOf(s batuta.Status) *Paused {
	if s.Paused.IsZero() {
		return nil
	}
	return &Paused{Stamp{s.Paused}, string(s.PausedWith)}
}

// Side is how many members are up, of how many, as the answering member sees them, itself included.
type Side struct {
	Heard int `json:"heard"`
	Of    int `json:"of"`
}

func sideOf(s batuta.Status) (side Side) {
	for _, m := range s.Members {
		if m.State == batuta.StateRemoved {
			continue
		}
		if side.Of++; m.ID == s.ID || m.State == batuta.StateUp {
			side.Heard++
		}
	}
	return side
}

// Quorum is the answer of /v1/quorum: the member's view of votes and of its own lease. Times are
// seconds.
type Quorum struct {
	Voters     [][]string         `json:"voters"`      // two sets while the members change: each must agree
	Term       uint64             `json:"term"`        // the highest known
	Lease      float64            `json:"lease"`       // how long a leadership holds after the leader sent a heartbeat that a majority has acknowledged
	Left       float64            `json:"left"`        // of this member's own; 0: it leads nothing
	Answered   map[string]float64 `json:"answered"`    // of a leader: how long ago it sent the heartbeat that each voter acknowledged last
	Promise    float64            `json:"promise"`     // for how long this member grants no vote
	PromisedTo string             `json:"promised_to"` // the leader that it received a heartbeat from
}

func quorumOf(q *batuta.QuorumStatus) *Quorum {
	if q == nil {
		return nil
	}
	o := &Quorum{Voters: [][]string{}, Term: q.Term, Lease: q.Lease.Seconds(), Left: max(q.Left, 0).Seconds(),
		Answered: map[string]float64{}, Promise: q.Promise.Seconds(), PromisedTo: string(q.PromisedTo)}
	for _, set := range q.Voters {
		ids := make([]string, 0, len(set))
		for _, id := range set {
			ids = append(ids, string(id))
		}
		o.Voters = append(o.Voters, ids)
	}
	for id, ago := range q.Answered {
		o.Answered[string(id)] = ago.Seconds()
	}
	return o
}

// Timing is the member's timeouts, as Go writes durations.
type Timing struct {
	Heartbeat string `json:"heartbeat"`
	TMax      string `json:"t_max"`
	TProcess  string `json:"t_process"`
	T         string `json:"t"` // 2·t_max + t_process: silence that causes a suspicion
}

// Rhythm is the longest values that the member has measured in the last 10 minutes, and in the last
// 2 seconds; in seconds.
type Rhythm struct {
	Silence         float64 `json:"silence"`    // of the leader, or of a follower
	Stall           float64 `json:"stall"`      // of the member's own loop
	RoundTrip       float64 `json:"round_trip"` // from a heartbeat to its acknowledgement; 0: it has led no member
	RecentSilence   float64 `json:"recent_silence"`
	RecentStall     float64 `json:"recent_stall"`
	RecentRoundTrip float64 `json:"recent_round_trip"`
}

func rhythmOf(r batuta.Rhythm) Rhythm {
	return Rhythm{r.Silence.Seconds(), r.Stall.Seconds(), r.RoundTrip.Seconds(),
		r.RecentSilence.Seconds(), r.RecentStall.Seconds(), r.RecentRoundTrip.Seconds()}
}

// Member is an entry of /v1/members.
type Member struct {
	ID       string            `json:"id"`
	Address  string            `json:"address"`
	Priority int               `json:"priority"`
	State    string            `json:"state"`
	Standing string            `json:"standing"` // eligible, or why it is not a candidate
	Epoch    uint64            `json:"epoch"`
	LastSeen Stamp             `json:"last_seen"`          // null: never
	Indirect bool              `json:"indirect,omitempty"` // it is up, as the leader reports: while idle it sends the answering member nothing
	Linked   bool              `json:"linked"`             // it is connected to the answering member
	Meta     map[string]string `json:"meta,omitempty"`     // its metadata
	Refusal  string            `json:"refusal,omitempty"`  // why the last connection between it and the answering member was refused
	ReapedAt Stamp             `json:"reaped_at,omitzero"` // when the leader removes it if it stays away

	Unresolved string `json:"unresolved,omitempty"` // why the name in its address did not resolve at the answering member's last dial
}

// Messages counts messages by kind.
type Messages struct {
	Sent     map[string]uint64 `json:"sent"`
	Received map[string]uint64 `json:"received"`
}

// Leader is the answer of /v1/leader.
type Leader struct {
	Leader   string            `json:"leader"`
	Epoch    uint64            `json:"epoch"`
	Address  string            `json:"address"`
	Election string            `json:"election"`
	Meta     map[string]string `json:"meta,omitempty"` // the leader's metadata
}

// Readiness is the answer of /readyz while a leader is known. Standing is whether this member could
// take over.
type Readiness struct {
	Ready         bool   `json:"ready"`
	Standing      string `json:"standing"`
	StandingWhy   string `json:"standing_why"`
	StandingSince Stamp  `json:"standing_since"`
}

// Record is an entry of /v1/trace: what the member did and why.
type Record struct {
	Time     Stamp  `json:"time"`
	Member   string `json:"member"`
	Election string `json:"election"`
	What     string `json:"what"`
	Message  string `json:"message,omitempty"` // kind of the message sent or received
	Peer     string `json:"peer,omitempty"`
	Token    string `json:"token,omitempty"`
	Why      string `json:"why,omitempty"`
}

// Worded is a text of the library for the users of this program, which names its settings as they set
// them. By default it is the text as it is: they are fields of [batuta.Config]. A command has its flags.
var Worded = func(text string) string { return text }

func statusOf(s batuta.Status, http, version string) Status {
	st := Status{
		ID: string(s.ID), Cluster: s.Cluster, Election: s.Election,
		Algorithm: s.Algorithm, Guarantee: s.Guarantee, Fencing: s.Fencing, Takeover: s.Takeover, Unattested: s.Unattested, ClockDrift: s.ClockDrift,
		Role: string(s.Role), Electing: s.Electing, Epoch: s.Epoch, Since: Stamp{s.Since},
		Members: membersOf(s), Incarnation: Serial(s.Incarnation), Uptime: s.Uptime.Seconds(),
		Listen: s.Listen, Advertise: s.Advertise, HTTP: http, Version: version,
		Messages: Messages{Sent: orEmpty(s.Sent), Received: orEmpty(s.Received)},
		Refused:  orEmpty(s.Refused),
		Timing: Timing{Heartbeat: s.Timing.Heartbeat.String(), TMax: s.Timing.TMax.String(),
			TProcess: s.Timing.TProcess.String(), T: s.Timing.T().String()},
		Headroom: s.Rhythm.Headroom(s.Timing.T()), Rhythm: rhythmOf(s.Rhythm),
		Security: s.Security, Transport: transportOf(s), Certificate: Stamp{s.Certificate.To}, Authority: Stamp{s.Authority.To},
		Standing: string(s.Standing), StandingWhy: Worded(s.StandingWhy), StandingSince: Stamp{s.StandingSince}, DiskError: s.DiskError, LogDropped: s.LogDropped,
	}
	st.Ready, st.Side, st.Wire, st.State = s.Ready, sideOf(s), s.WireVersion, s.StateVersion
	st.Quorum, st.Paused = quorumOf(s.Quorum), pausedOf(s)
	if s.Ring != nil {
		st.Participating, st.Successor = &s.Ring.Participating, new(string(s.Ring.Successor))
	}
	for _, m := range s.Members {
		if m.ID == s.ID {
			st.Meta = m.Meta
		}
	}
	st.Leader, st.Token = tokenOf(s.Token)
	return st
}

// tokenOf returns a leader's id and its token as text; nil: there is no leader.
func tokenOf(t batuta.Token) (leader, token *string) {
	if !t.Defined() {
		return nil, nil
	}
	l, text := string(t.Leader.ID), t.String()
	return &l, &text
}

func transportOf(s batuta.Status) string {
	if s.Security == "secret" || s.Security == "tls" {
		return "tls"
	}
	return "insecure"
}

func membersOf(s batuta.Status) []Member {
	list := make([]Member, 0, len(s.Members))
	for _, m := range s.Members {
		list = append(list, Member{
			ID: string(m.ID), Address: m.Address, Priority: m.Priority,
			State: stateName(m.State), Standing: string(m.Standing), Epoch: m.Epoch, LastSeen: Stamp{m.LastSeen}, Indirect: indirect(s, m), Linked: m.Linked, Meta: m.Meta, Refusal: m.Refusal, Unresolved: m.Unresolved, ReapedAt: Stamp{m.ReapedAt},
		})
	}
	return list
}

// indirect reports whether m sends nothing to the answering member, s.ID, without faults: a
// follower communicates only with its leader and, in a ring, its neighbours.
func indirect(s batuta.Status, m batuta.MemberStatus) bool {
	led := s.Token.Defined() && s.Leader != s.ID
	return led && m.State == batuta.StateUp && m.ID != s.ID && m.ID != s.Leader && (s.Ring == nil || m.ID != s.Ring.Successor)
}

func stateName(s batuta.MemberState) string {
	if s == "" {
		return "added"
	}
	return string(s)
}

func orEmpty(m map[string]uint64) map[string]uint64 {
	if m == nil {
		return map[string]uint64{}
	}
	return m
}

func recordsOf(trace []batuta.Record) []Record {
	list := make([]Record, 0, len(trace))
	for _, r := range trace {
		rec := Record{
			Time: Stamp{r.At}, Member: string(r.Member), Election: r.Election,
			What: r.What, Peer: string(r.Peer), Token: r.Token.String(), Why: r.Why,
		}
		if r.Message != nil {
			rec.Message = string(r.Message.Kind)
		}
		list = append(list, rec)
	}
	return list
}

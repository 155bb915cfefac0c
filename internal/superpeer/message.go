package superpeer

// Kind names a message.
type Kind uint8

// Messages between a node and a super peer (attach.go).
const (
	Attach    Kind = iota + 1 // node → super peer: may I be served? At, RTT, Alt; Peer serves it now
	Renew                     // client → super peer: I am still your client; At, RTT, Alt
	Accept                    // super peer → client: you are served; Slot
	Full                      // super peer → node: no place under Alt; Others may have room
	Gone                      // I hold no token; Peer does, if it is not None
	Redirect                  // super peer → client: your place went to a higher bid; a place costs Alt now
	Detach                    // client → super peer: I leave my place
	Moved                     // new holder → client: Token came to me, with your lease; Slot, RTT
	Recommend                 // super peer → client: Peer, newly a super peer, is RTT from you
)

// Messages that move a token (transfer.go).
const (
	Offer    Kind = iota + 32 // holder → node: take Token?
	Ready                     // node → holder: yes, I keep myself free for it
	Decline                   // node → holder or registrar: no
	Move                      // holder → registrar: record Peer as the next holder of Token
	Confirm                   // registrar → holder: recorded, under Version
	Transfer                  // holder → node: Token is yours, under Version, with Leases
)

// Messages of the refined protocol (tokens.go, jump.go).
const (
	Assess   Kind = iota + 64 // holder → client: measure the round trips to Peers
	Assessed                  // client → holder: Times, in the order of Peers
	Bid                       // holder → holder: my loss is only Alt; may I fill your vacancy?
	Vacant                    // holder → holder: yes, go to Peer; None: no
	Poll                      // holder → client: what would clients of further holders save with a token at you?
	Consider                  // client → holder: which nodes do you serve?
	Roll                      // holder → client: Leases
	Polled                    // client → holder: the total gain Alt
	Hush                      // client → holder: a token comes to me; offer no vacancy that it may fill
)

// Messages of registrars (registrar.go) and of the prefix methods (prefix.go).
const (
	Grant  Kind = iota + 96 // registrar → node: Token is yours, under Version
	Keep                    // holder → registrar: I hold Token under Version; Heirs
	Kept                    // registrar → holder: confirmed
	Drop                    // registrar → holder: it is not yours, or not needed any more; Peer holds it
	Summon                  // registrar → holder: hand Token over to me
	Where                   // node → registrar: which node holds Token?
	Here                    // registrar → node: Peer does
)

// Message is a message between nodes. A field that a kind does not use is zero. A Message and its
// slices are never changed after it has been sent.
type Message struct {
	Kind     Kind
	From, To Peer
	Peer     Peer
	Token    int32
	Version  uint32
	Slot     int32
	RTT      float32 // milliseconds; negative: not measured
	Alt      float32 // milliseconds: to the sender's best alternative super peer with room
	Load     int32   // Keep: nodes served; Transfer: jumps of the token
	At       Position
	Key      uint64 // the sender's identifier

	Others []Referral
	Peers  []Peer
	Times  []float32
	Leases []Lease
}

// Referral is a super peer that may have room.
type Referral struct {
	Peer  Peer
	Token int32
}

// Announcement is what gossip publishes of a super peer. Newer versions of a token replace older
// versions.
type Announcement struct {
	Token   int32
	Version uint32
	Holder  Peer
	Spare   int32   // places left; MaxInt32 without a limit
	Price   float32 // milliseconds; what a place costs if none is left
	At      Position
	Gain    float32 // milliseconds saved in all if a second token came to the holder's vacancy
	Loss    float32 // milliseconds lost in all if this token left; negative: not known
}

// Query asks the driver for known announcements: the nearest to the node, some with places left,
// and a random sample.
type Query struct {
	Near, Spare, Sample int
	At                  Position
	Seed                uint64 // for the sample
}

// Actions are what a driver does after a step: probes and the query, whose results cause further
// steps, and messages, which it sends in order, best effort.
type Actions struct {
	Send     []Message
	Probe    []Peer // measure the round trip; answer with Node.Probed
	Look     Query  // answer with Node.Heard if Look.Near > 0
	Tell     Announcement
	Announce bool // gossip Tell
}

// Reset empties a for its next use, and keeps its memory.
func (a *Actions) Reset() {
	a.Send, a.Probe = a.Send[:0], a.Probe[:0]
	a.Look.Near, a.Announce = 0, false
}

func (a *Actions) send(m Message) { a.Send = append(a.Send, m) }

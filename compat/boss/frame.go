package boss

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// A frame on the wire is two bytes of length, big-endian, and that many bytes of a JSON object.
const (
	lengthSize = 2
	maxBody    = 1<<16 - 1
)

// Types of frame. Unknown types are skipped.
const (
	typeIdentification = "identification"
	typeElection       = "election"
	typeResponse       = "election_response"
	typeNewBoss        = "new_boss"
	typeHeartbeat      = "heartbeat"
	typeBatuta         = "batuta" // between batuta members, on the persistent connection
)

// frame is every type's layout; a type leaves out what it does not use.
type frame struct {
	Type        string `json:"type"`
	NodeType    string `json:"node_type,omitempty"`
	IP          string `json:"ip,omitempty"`
	Port        int    `json:"port,omitempty"`
	IsBoss      *bool  `json:"is_boss,omitempty"`
	IsTemporary *bool  `json:"is_temporary,omitempty"`
	MyID        string `json:"my_id,omitempty"`
	IsBusy      *bool  `json:"is_busy,omitempty"`
	Batuta      *extra `json:"batuta,omitempty"`
}

// extra is what only batuta members send and read.
type extra struct {
	Cluster     string   `json:"cluster"`
	Incarnation uint64   `json:"incarnation"`
	Message     *message `json:"message,omitempty"`
}

func (f *frame) boss() bool      { return f.IsBoss != nil && *f.IsBoss }
func (f *frame) temporary() bool { return f.IsTemporary != nil && *f.IsTemporary }

// id returns the frame's sender as it names itself; None if that is no address.
func (f *frame) id() election.ID {
	a, err := netip.ParseAddr(f.IP)
	if err != nil || a.Zone() != "" {
		return election.None
	}
	return election.ID(a.Unmap().String())
}

// badFrame is an invalid frame from outside. It ends its connection.
type badFrame struct{ reason, detail string }

func (b *badFrame) Error() string { return fmt.Sprintf("bad frame (%s): %s", b.reason, b.detail) }

func bad(reason, format string, args ...any) error {
	return &badFrame{reason, fmt.Sprintf(format, args...)}
}

func encode(f *frame) ([]byte, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", f.Type, err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("encode %s of %d bytes: %w", f.Type, len(body), errTooLong)
	}
	out := make([]byte, lengthSize, lengthSize+len(body))
	binary.BigEndian.PutUint16(out, uint16(len(body)))
	return append(out, body...), nil
}

// readFrame reads a frame from r; begun is called after its first byte. An end before that is
// io.EOF, an end within the frame io.ErrUnexpectedEOF.
func readFrame(r io.Reader, begun func()) (*frame, error) {
	var head [lengthSize]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return nil, err
	}
	begun()
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return nil, cutShort(err)
	}
	size := binary.BigEndian.Uint16(head[:])
	if size == 0 {
		return nil, bad("length", "a length of 0")
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, cutShort(err)
	}
	return decode(body)
}

func cutShort(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// decode reads a body. Of an unknown type it reads only the type: its further fields may be
// anything.
func decode(body []byte) (*frame, error) {
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(body, &kind); err != nil {
		return nil, bad("malformed", "%v", err)
	}
	f := &frame{Type: kind.Type}
	var err error
	switch kind.Type {
	case typeIdentification, typeElection, typeResponse, typeNewBoss:
		if err = json.Unmarshal(body, f); err == nil {
			err = f.locate(body)
		}
	case typeHeartbeat, typeBatuta:
		var own struct {
			Batuta *extra `json:"batuta"`
		}
		err = json.Unmarshal(body, &own)
		f.Batuta = own.Batuta
	}
	var b *badFrame
	switch {
	case errors.As(err, &b):
		return nil, b
	case err != nil:
		return nil, bad("malformed", "%s: %v", f.Type, err)
	}
	return f, nil
}

// locate checks the address in a frame. The original's question has neither ip nor port, but
// node_port: it means the address that it comes from.
func (f *frame) locate(body []byte) error {
	var where struct {
		IP       *string `json:"ip"`
		Port     *int    `json:"port"`
		NodePort *int    `json:"node_port"`
	}
	if err := json.Unmarshal(body, &where); err != nil {
		return err
	}
	if where.IP != nil && f.id() == election.None {
		return bad("id", "%s: %.64q is no IP address", f.Type, f.IP)
	}
	for _, port := range []*int{where.NodePort, where.Port} {
		if port == nil {
			continue
		}
		if f.Port = *port; f.Port < 1 || f.Port > 65535 {
			return bad("malformed", "%s: port %d", f.Type, f.Port)
		}
	}
	return nil
}

// from fills in the address that a frame came from, if the frame names none. Its error reports
// that the frame names a different address.
func (f *frame) from(host netip.Addr) error {
	switch f.Type {
	case typeIdentification, typeElection, typeResponse, typeNewBoss:
		if f.IP == "" {
			f.IP = host.String()
		}
		if string(f.id()) != host.String() {
			return bad("id", "%s in the name of %.64q, from %s", f.Type, f.IP, host)
		}
	}
	return nil
}

// message is an [election.Message] between batuta members. Times are in nanoseconds. Its sender
// is in the frame, or that of the connection.
type message struct {
	Kind     election.MessageKind `json:"kind"`
	Election string               `json:"election,omitempty"`
	From     election.ID          `json:"from"`
	To       election.ID          `json:"to,omitempty"`
	Token    token                `json:"token,omitzero"`
	Highest  uint64               `json:"highest,omitempty"`
	Aside    election.Eligibility `json:"aside,omitempty"`
	Digest   uint32               `json:"digest,omitempty"`
	Round    round                `json:"round,omitzero"`
	Ended    bool                 `json:"ended,omitempty"`
	Age      time.Duration        `json:"age,omitempty"`
	Stamp    int64                `json:"stamp,omitempty"`
	Draining bool                 `json:"draining,omitempty"`
	Side     int                  `json:"side,omitempty"`
	Young    bool                 `json:"young,omitempty"`
	Renews   uint64               `json:"renews,omitempty"`
	Version  uint64               `json:"version,omitempty"`
	Leads    bool                 `json:"leads,omitempty"`
	Change   uint64               `json:"change,omitempty"`
	List     []entry              `json:"list,omitempty"`
	States   []state              `json:"states,omitempty"`
}

// token is a leadership. On this wire members rank only by address.
type token struct {
	Epoch  uint64      `json:"epoch"`
	Leader election.ID `json:"leader"`
}

type round struct {
	Number    uint64      `json:"number"`
	Initiator election.ID `json:"initiator"`
}

type entry struct {
	ID       election.ID        `json:"id"`
	Address  string             `json:"address,omitempty"`
	Observer bool               `json:"observer,omitempty"`
	Version  uint64             `json:"version,omitempty"`
	Gone     election.Departure `json:"gone,omitempty"`
}

type state struct {
	ID    election.ID          `json:"id"`
	State election.MemberState `json:"state,omitempty"`
	Epoch uint64               `json:"epoch,omitempty"`
	Aside election.Eligibility `json:"aside,omitempty"`
}

func outward(m *election.Message) *message {
	w := &message{
		Kind: m.Kind, Election: m.Election, From: m.From, To: m.To,
		Token: token{m.Token.Epoch, m.Token.Leader.ID}, Highest: m.Highest, Aside: m.Eligibility, Digest: m.Digest,
		Round: round{m.Round.Number, m.Round.Initiator},
		Ended: m.Ended, Age: m.Age, Stamp: m.Stamp, Draining: m.Draining, Version: m.Version,
		Side: m.Side, Young: m.Young, Renews: m.Renews, Leads: m.Leads, Change: m.Change,
	}
	for _, e := range m.List {
		w.List = append(w.List, entry{e.ID, e.Address, e.Observer, e.Version, e.Departure})
	}
	for _, s := range m.States {
		w.States = append(w.States, state{s.ID, s.State, s.Epoch, s.Eligibility})
	}
	return w
}

func (w *message) inward() *election.Message {
	m := &election.Message{
		Kind: w.Kind, Election: w.Election, From: w.From, To: w.To,
		Token: election.Token{Epoch: w.Token.Epoch, Leader: election.Rank{ID: w.Token.Leader}}, Highest: w.Highest, Eligibility: w.Aside, Digest: w.Digest,
		Round: election.Round{Number: w.Round.Number, Initiator: w.Round.Initiator},
		Ended: w.Ended, Age: w.Age, Stamp: w.Stamp, Draining: w.Draining, Version: w.Version,
		Side: w.Side, Young: w.Young, Renews: w.Renews, Leads: w.Leads, Change: w.Change,
	}
	for _, e := range w.List {
		m.List = append(m.List, election.Member{Rank: election.Rank{ID: e.ID}, Address: e.Address, Observer: e.Observer, Version: e.Version, Departure: e.Gone})
	}
	for _, s := range w.States {
		m.States = append(m.States, election.MemberReport{ID: s.ID, State: s.State, Epoch: s.Epoch, Eligibility: s.Aside})
	}
	return m
}

// identity is this member as its frames name it. It writes the frames and sends none.
type identity struct {
	frame           // the address, as in every frame
	nodeType string // of every frame with a node type
	log      *slog.Logger
}

// envelope returns the part of a frame that batuta members read; m may be nil.
func (i *identity) envelope(m *election.Message) *extra {
	e := *i.Batuta
	if m != nil {
		e.Message = outward(m)
	}
	return &e
}

// begin begins a frame that names this member.
func (i *identity) begin(kind string, m *election.Message) *frame {
	f := i.frame
	f.Type, f.Batuta = kind, i.envelope(m)
	return &f
}

func (i *identity) identification(boss, temporary bool, m *election.Message) []byte {
	f := i.begin(typeIdentification, m)
	f.NodeType, f.IsBoss, f.IsTemporary = i.nodeType, &boss, &temporary
	return i.bytes(f)
}

func (i *identity) announcement(m *election.Message) []byte {
	f := i.begin(typeNewBoss, m)
	f.NodeType = i.nodeType
	return i.bytes(f)
}

func (i *identity) heartbeat(m *election.Message) []byte {
	return i.bytes(&frame{Type: typeHeartbeat, MyID: i.IP, IsBusy: new(bool), Batuta: i.envelope(m)})
}

// nobody returns an address that every member outranks, by value and as text: an election is
// called in its name.
func (i *identity) nobody() string {
	if a, err := netip.ParseAddr(i.IP); err == nil && a.Is6() {
		return "0::"
	}
	return "0.0.0.0"
}

// bytes encodes a frame. If the frame is too long it returns nil, and logs an error.
func (i *identity) bytes(f *frame) []byte {
	b, err := encode(f)
	if errors.Is(err, errTooLong) && f.Batuta != nil && f.Batuta.Message != nil && f.Batuta.Message.States != nil {
		short := *f.Batuta.Message
		short.States = nil // members can do without the states
		f.Batuta.Message = &short
		b, err = encode(f)
	}
	if err != nil {
		i.log.Error("frame not sent", "error", err)
	}
	return b
}

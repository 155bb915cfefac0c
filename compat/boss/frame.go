package boss

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

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

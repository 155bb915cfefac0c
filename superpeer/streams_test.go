package superpeer_test

import (
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/batuta-dev/batuta/superpeer"
)

// Without a secret any client may open a stream. Lengths that no node sends must not end the
// process, as the allocation of a message of 2^62 bytes does, nor what decompresses to nothing.
func TestAStreamOfNoNodeEndsNoProcess(t *testing.T) {
	m, err := superpeer.Join(t.Context(), superpeer.Config{Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	const user, pushPull, compressed = 8, 6, 9
	field := func(name string, n uint64) []byte {
		b := append([]byte{0xa0 | byte(len(name))}, name...)
		return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
	}
	message := func(kind byte, fields ...[]byte) []byte {
		b := []byte{kind, 0x80 | byte(len(fields))}
		for _, f := range fields {
			b = append(b, f...)
		}
		return b
	}
	var nothing bytes.Buffer
	lzw.NewWriter(&nothing, lzw.LSB, 8).Close()
	for name, raw := range map[string][]byte{
		"a long message":      message(user, field("UserMsgLen", 1<<62)),
		"a message of GiB":    message(user, field("UserMsgLen", 1<<33)),
		"a long state":        message(pushPull, field("UserStateLen", 1<<62), field("Nodes", 0)),
		"many nodes":          message(pushPull, field("Nodes", 1<<62)),
		"nothing, compressed": slices.Concat([]byte{compressed, 0x82, 0xa4}, []byte("Algo\x00\xa3Buf"), []byte{0xa0 | byte(nothing.Len())}, nothing.Bytes()),
		"a list of fields":    {user, 0x91, 0xcf, 0x40, 0, 0, 0, 0, 0, 0, 0},
		"a long name":         append([]byte{user, 0x81, 0xda, 0, 10}, "UserMsgLen\xcf\x40\x00\x00\x00\x00\x00\x00\x00"...),
	} {
		c, err := net.Dial("tcp", m.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := memberlist.AddLabelHeaderToStream(c, "batuta/"+m.Status().Overlay); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(raw); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("%s: the stream does not end: %v", name, err)
		}
	}
}

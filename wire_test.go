package batuta

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/election"
)

// fill sets every field of v to something that is not zero and fits the wire.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if fill(v.Field(i)); v.Type().Field(i).Name == "Address" {
				v.Field(i).SetString("h:7")
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Pointer: // what a message carries: for the test to set
	case reflect.String:
		v.SetString("7")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(12)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(13)
	default:
		panic("a kind of field that the wire has not met: " + v.Kind().String())
	}
}

func TestEveryFieldOfAMessageTravels(t *testing.T) {
	var sent election.Message
	fill(reflect.ValueOf(&sent).Elem())
	sent.Carried = &election.Message{}
	fill(reflect.ValueOf(sent.Carried).Elem())
	var e encoder
	frame, err := e.message(&sent)
	if err != nil {
		t.Fatal(err)
	}
	if size, err := frameSize(frame, maxFrame); err != nil || size != len(frame)-lengthSize {
		t.Fatalf("length %d (%v) of a frame of %d bytes", size, err, len(frame))
	}
	got, err := decodeMessage(frame[lengthSize:])
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*got, sent) {
		t.Errorf("sent %+v\n got %+v", sent, *got)
	}
}

func TestEveryFieldOfAHandshakeTravels(t *testing.T) {
	var sent handshake
	fill(reflect.ValueOf(&sent).Elem())
	sent.Kind = kindRefused
	var e encoder
	frame, err := e.handshake(&sent)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeHandshake(frame[lengthSize:])
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*got, sent) {
		t.Errorf("sent %+v\n got %+v", sent, *got)
	}
}

func TestABeatIsSmall(t *testing.T) {
	var e encoder
	frame, err := e.message(&election.Message{Kind: election.Beat, Election: "default", From: "5", To: "4",
		Token: Token{Epoch: 7, Leader: Rank{ID: "5"}}, Highest: 7, Stamp: 123456789012, Version: 9})
	if err != nil {
		t.Fatal(err)
	}
	if len(frame) > 64 {
		t.Errorf("a beat takes %d bytes; a field that is not used must take no room", len(frame))
	}
}

// message gives the body of a frame that would be good but for change.
func message(t *testing.T, change func(*election.Message)) []byte {
	t.Helper()
	m := election.Message{Kind: election.Beat, From: "5", To: "4", Token: Token{Epoch: 7, Leader: Rank{ID: "5"}}}
	change(&m)
	var e encoder
	frame, err := e.message(&m)
	if err != nil {
		t.Fatal(err)
	}
	return frame[lengthSize:]
}

func TestBadMessagesAreRefusedWithTheReason(t *testing.T) {
	good := message(t, func(*election.Message) {})
	if _, err := decodeMessage(good); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		body []byte
		want reason
	}{
		{"nothing", nil, reasonMalformed},
		{"random", []byte("GET / HTTP/1.1\r\n"), reasonMalformed},
		{"a byte after it", append(bytes.Clone(good), 0), reasonMalformed},
		{"cut short", good[:len(good)-1], reasonMalformed},
		{"an array", []byte{0x81, 0x00}, reasonMalformed},
		{"no kind", message(t, func(m *election.Message) { m.Kind = "" }), reasonMalformed},
		{"indefinite length", []byte{0xbf, 0x00, 0x61, 'x', 0xff}, reasonMalformed},
		{"a key twice", []byte{0xa2, 0x00, 0x61, 'x', 0x00, 0x61, 'y'}, reasonMalformed},
		{"a tag", []byte{0xa1, 0x00, 0xc0, 0x61, 'x'}, reasonMalformed},
		{"nobody sends it", message(t, func(m *election.Message) { m.From = "" }), reasonID},
		{"white space in an id", message(t, func(m *election.Message) { m.From = "5 6" }), reasonID},
		{"not canonical", message(t, func(m *election.Message) { m.From = "05" }), reasonID},
		{"an endless id", message(t, func(m *election.Message) { m.To = ID(strings.Repeat("9", 129)) }), reasonID},
		{"epoch near 2^64", message(t, func(m *election.Message) { m.Token.Epoch = math.MaxUint64 }), reasonEpoch},
		{"highest near 2^64", message(t, func(m *election.Message) { m.Highest = math.MaxUint64 - 1 }), reasonEpoch},
		{"round near 2^64", message(t, func(m *election.Message) { m.Round.Number = math.MaxUint64 }), reasonEpoch},
		{"a member's epoch", message(t, func(m *election.Message) {
			m.States = []election.MemberReport{{ID: "3", Epoch: math.MaxUint64}}
		}), reasonEpoch},
		{"a bad id in the ring", message(t, func(m *election.Message) { m.Ring = []Rank{{ID: "a/b"}} }), reasonID},
		{"a list without an id", message(t, func(m *election.Message) { m.List = []election.Member{{Address: "h:1"}} }), reasonID},
		{"a version near 2^64", message(t, func(m *election.Message) {
			m.List = []election.Member{{Rank: Rank{ID: "3"}, Version: math.MaxUint64}}
		}), reasonMalformed},
		{"a kind that does not print", message(t, func(m *election.Message) { m.Kind = "be\x1b[31mat" }), reasonMalformed},
		{"an election that does not print", message(t, func(m *election.Message) { m.Election = "a\u202eb" }), reasonMalformed},
		{"a long reason not to stand", message(t, func(m *election.Message) { m.Aside = election.Aside(strings.Repeat("a", 65)) }), reasonMalformed},
		{"a state that does not print", message(t, func(m *election.Message) {
			m.States = []election.MemberReport{{ID: "3", State: "up\a"}}
		}), reasonMalformed},
		{"an id that does not print", message(t, func(m *election.Message) { m.From = "a\u200bb" }), reasonID},
		{"an id in another form", message(t, func(m *election.Message) { m.From = "Ma\u0301laga" }), reasonID},
		{"one that is passed on twice", message(t, func(m *election.Message) {
			m.Carried = &election.Message{Kind: election.Relay, From: "3", Carried: &election.Message{Kind: election.Ping, From: "3"}}
		}), reasonMalformed},
		{"one that is passed on by nobody", message(t, func(m *election.Message) { m.Carried = &election.Message{Kind: election.Ping} }), reasonID},
		{"hops below zero", message(t, func(m *election.Message) { m.Hops = -1 }), reasonMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := decodeMessage(test.body)
			var b *badFrame
			if !errors.As(err, &b) || b.reason != test.want {
				t.Errorf("got %v, want the reason %q", err, test.want)
			}
		})
	}
}

func TestAnUnknownKeyIsSkipped(t *testing.T) {
	later, err := encoding.Marshal(map[int]any{0: "beat", 2: "5", 99: []string{"of", "a", "later", "version"}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := decodeMessage(later); err != nil || m.Kind != election.Beat || m.From != "5" {
		t.Errorf("got %+v, %v", m, err)
	}
}

// An earlier version let such entries in: the members that hold them are not cut off.
func TestEntriesThatWereNeverMembersAreLeftOut(t *testing.T) {
	list := []election.Member{{Rank: Rank{ID: "3"}, Address: "h:1"}, {Rank: Rank{ID: "4"}, Address: "$(touch x):80"},
		{Rank: Rank{ID: "a\u202eb"}, Address: "h:2"}, {Rank: Rank{ID: "5"}, Address: "\x1b[31m:80"}, {Rank: Rank{ID: "6"}}}
	m, err := decodeMessage(message(t, func(m *election.Message) { m.List = list }))
	if err != nil {
		t.Fatal(err)
	}
	frame, err := new(encoder).handshake(&handshake{Kind: kindAdmitted, From: Rank{ID: "3"}, List: list})
	if err != nil {
		t.Fatal(err)
	}
	h, err := decodeHandshake(frame[lengthSize:])
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string][]election.Member{"message": m.List, "admission": h.List} {
		if len(got) != 2 || got[0].ID != "3" || got[1].ID != "6" {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestALengthIsRefusedBeforeItIsAllocated(t *testing.T) {
	for _, head := range []string{"\x00\x00\x00\x00", "\xff\xff\xff\xff", "\x00\x10\x00\x01"} {
		if size, err := frameSize([]byte(head), maxFrame); err == nil {
			t.Errorf("length % x gives %d", head, size)
		}
	}
	if size, err := frameSize([]byte("\x00\x10\x00\x00"), maxFrame); err != nil || size != maxFrame {
		t.Errorf("the largest frame gives %d, %v", size, err)
	}
}

func TestAFullClusterFitsInAFrame(t *testing.T) {
	m := election.Message{Kind: election.Beat, From: "5"}
	for range election.MaxMembers {
		id := ID(strings.Repeat("n", election.MaxID))
		m.States = append(m.States, election.MemberReport{ID: id, State: election.StateUnreachable, Epoch: election.MaxEpoch})
	}
	var e encoder
	if _, err := e.message(&m); err != nil {
		t.Error(err)
	}
}

// What the decoder accepts must be good for a Machine, and come out the same
// after another trip.
func FuzzMessage(f *testing.F) {
	var e encoder
	var m election.Message
	fill(reflect.ValueOf(&m).Elem())
	for _, m := range []election.Message{m, {Kind: election.Beat, From: "5"}} {
		frame, err := e.message(&m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(frame[lengthSize:]))
	}
	f.Add([]byte("random bytes"))
	for _, text := range []string{"\x1b[31m", "a\u202eb", "a\u200bb", "$(touch x):80", "<script>"} {
		for _, m := range []election.Message{
			{Kind: election.MessageKind(text), From: "5"}, {Kind: election.Query, From: ID(text)}, {Kind: election.Query, From: "5", Election: text},
			{Kind: election.Report, From: "5", Aside: election.Aside(text)},
			{Kind: election.Beat, From: "5", States: []election.MemberReport{{ID: "4", State: election.MemberState(text)}}},
			{Kind: election.Members, From: "5", List: []election.Member{{Rank: Rank{ID: "4"}, Address: text}, {Rank: Rank{ID: ID(text)}, Address: "h:1"}}},
		} {
			frame, err := e.message(&m)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(bytes.Clone(frame[lengthSize:]))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := decodeMessage(body)
		if err != nil {
			var b *badFrame
			if !errors.As(err, &b) {
				t.Fatalf("an error without a reason: %v", err)
			}
			return
		}
		for _, e := range m.List {
			if e.Address != "" && election.CheckListen(e.Address) != nil {
				t.Fatalf("accepted an address %q", e.Address)
			}
		}
		shown := []string{string(m.Kind), m.Election, string(m.Aside), string(m.From), string(m.To), string(m.Token.Leader.ID)}
		for _, s := range m.States {
			shown = append(shown, string(s.ID), string(s.State))
		}
		for _, text := range shown {
			if election.Shown(text) != text {
				t.Fatalf("accepted the text %+q", text)
			}
		}
		if m.From == "" || m.Token.Epoch > election.MaxEpoch || m.Highest > election.MaxEpoch {
			t.Fatalf("accepted %+v", m)
		}
		frame, err := e.message(m)
		if err != nil {
			t.Skip("larger in our form than in the sender's")
		}
		again, err := decodeMessage(frame[lengthSize:])
		if err != nil || again.Token != m.Token || again.From != m.From || len(again.States) != len(m.States) {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
	})
}

func FuzzHandshake(f *testing.F) {
	var e encoder
	for _, h := range []handshake{
		{Kind: kindHello, Version: protocolVersion, Cluster: "default", From: Rank{ID: "5"}, Incarnation: 1, To: "4"},
		{Kind: kindRefused, Version: protocolVersion, From: Rank{ID: "4"}, Reason: reasonCluster},
		{Kind: kindRefused, Version: protocolVersion, From: Rank{ID: "4"}, Reason: "\x1b[31m", Detail: "a\u202eb\n"},
		{Kind: kindJoin, Version: protocolVersion, From: Rank{ID: "a\u200bb"}, Address: "$(touch x):80"},
		{Kind: kindAdmitted, Version: protocolVersion, From: Rank{ID: "4"}, Algorithm: "bully", Election: "a", TMax: 1, TProcess: 2,
			List: []election.Member{{Rank: Rank{ID: "6"}, Address: "\x1b[31m:80"}}},
	} {
		frame, err := e.handshake(&h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(frame[lengthSize:]))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		h, err := decodeHandshake(body)
		if err != nil {
			return
		}
		if h.From.ID == "" || len(h.Cluster) > maxText || election.Shown(string(h.From.ID)) != string(h.From.ID) {
			t.Fatalf("accepted %+v", h)
		}
		for _, e := range h.List {
			if e.Address != "" && election.CheckListen(e.Address) != nil {
				t.Fatalf("accepted an address %q", e.Address)
			}
		}
	})
}

// What one beat costs on the wire: to encode it, and to decode it.
func BenchmarkBeat(b *testing.B) {
	beat := &election.Message{Kind: election.Beat, Election: "default", From: "5", To: "4",
		Token: Token{Epoch: 7, Leader: Rank{ID: "5"}}, Highest: 7, Stamp: 123456789012, Version: 9}
	var e encoder
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := e.message(beat); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		frame, _ := e.message(beat)
		for b.Loop() {
			if _, err := decodeMessage(frame[lengthSize:]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

package wire

import (
	"bytes"
	"errors"
	"math"
	"os"
	"reflect"
	"regexp"
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
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"key": "7"}))
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
	sent.Carried, sent.Process = &election.Message{}, 0 // only what is carried names its process
	fill(reflect.ValueOf(sent.Carried).Elem())
	var e Encoder
	frame, err := e.Message(&sent)
	if err != nil {
		t.Fatal(err)
	}
	if size, err := FrameSize(frame, MaxFrame); err != nil || size != len(frame)-LengthSize {
		t.Fatalf("length %d (%v) of a frame of %d bytes", size, err, len(frame))
	}
	got, err := DecodeMessage(frame[LengthSize:])
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*got, sent) {
		t.Errorf("sent %+v\n got %+v", sent, *got)
	}
}

func TestEveryFieldOfAHandshakeTravels(t *testing.T) {
	var sent Handshake
	fill(reflect.ValueOf(&sent).Elem())
	sent.Kind = KindRefused
	var e Encoder
	frame, err := e.Handshake(&sent)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeHandshake(frame[LengthSize:])
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*got, sent) {
		t.Errorf("sent %+v\n got %+v", sent, *got)
	}
}

func TestABeatIsSmall(t *testing.T) {
	var e Encoder
	frame, err := e.Message(&election.Message{Kind: election.Beat, Election: "default", From: "5", To: "4",
		Token: election.Token{Epoch: 7, Leader: election.Rank{ID: "5"}}, Highest: 7, Stamp: 123456789012, Version: 9})
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
	m := election.Message{Kind: election.Beat, From: "5", To: "4", Token: election.Token{Epoch: 7, Leader: election.Rank{ID: "5"}}}
	change(&m)
	var e Encoder
	frame, err := e.Message(&m)
	if err != nil {
		t.Fatal(err)
	}
	return frame[LengthSize:]
}

func TestBadMessagesAreRefusedWithTheReason(t *testing.T) {
	good := message(t, func(*election.Message) {})
	if _, err := DecodeMessage(good); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		body []byte
		want Reason
	}{
		{"nothing", nil, ReasonMalformed},
		{"random", []byte("GET / HTTP/1.1\r\n"), ReasonMalformed},
		{"a byte after it", append(bytes.Clone(good), 0), ReasonMalformed},
		{"cut short", good[:len(good)-1], ReasonMalformed},
		{"an array", []byte{0x81, 0x00}, ReasonMalformed},
		{"no kind", message(t, func(m *election.Message) { m.Kind = "" }), ReasonMalformed},
		{"indefinite length", []byte{0xbf, 0x00, 0x61, 'x', 0xff}, ReasonMalformed},
		{"a key twice", []byte{0xa2, 0x00, 0x61, 'x', 0x00, 0x61, 'y'}, ReasonMalformed},
		{"a tag", []byte{0xa1, 0x00, 0xc0, 0x61, 'x'}, ReasonMalformed},
		{"nobody sends it", message(t, func(m *election.Message) { m.From = "" }), ReasonID},
		{"white space in an id", message(t, func(m *election.Message) { m.From = "5 6" }), ReasonID},
		{"not canonical", message(t, func(m *election.Message) { m.From = "05" }), ReasonID},
		{"an endless id", message(t, func(m *election.Message) { m.To = election.ID(strings.Repeat("9", 129)) }), ReasonID},
		{"epoch near 2^64", message(t, func(m *election.Message) { m.Token.Epoch = math.MaxUint64 }), ReasonEpoch},
		{"highest near 2^64", message(t, func(m *election.Message) { m.Highest = math.MaxUint64 - 1 }), ReasonEpoch},
		{"a side of more than all", message(t, func(m *election.Message) { m.Side = election.MaxMembers + 1 }), ReasonMalformed},
		{"a side below none", message(t, func(m *election.Message) { m.Side = -1 }), ReasonMalformed},
		{"a process outside of a relay", message(t, func(m *election.Message) { m.Process = 7 }), ReasonMalformed},
		{"an epoch that renews a higher one", message(t, func(m *election.Message) { m.Renews = m.Token.Epoch + 1 }), ReasonMalformed},
		{"a claimant near 2^64", message(t, func(m *election.Message) { m.Claimant = math.MaxUint64 }), ReasonMalformed},
		{"round near 2^64", message(t, func(m *election.Message) { m.Round.Number = math.MaxUint64 }), ReasonEpoch},
		{"a member's epoch", message(t, func(m *election.Message) {
			m.States = []election.MemberReport{{ID: "3", Epoch: math.MaxUint64}}
		}), ReasonEpoch},
		{"a bad id in the ring", message(t, func(m *election.Message) { m.Ring = []election.Rank{{ID: "a/b"}} }), ReasonID},
		{"a list without an id", message(t, func(m *election.Message) { m.List = []election.Member{{Address: "h:1"}} }), ReasonID},
		{"a version near 2^64", message(t, func(m *election.Message) {
			m.List = []election.Member{{Rank: election.Rank{ID: "3"}, Version: math.MaxUint64}}
		}), ReasonMalformed},
		{"a kind that does not print", message(t, func(m *election.Message) { m.Kind = "be\x1b[31mat" }), ReasonMalformed},
		{"an election that does not print", message(t, func(m *election.Message) { m.Election = "a\u202eb" }), ReasonMalformed},
		{"a long reason not to stand", message(t, func(m *election.Message) { m.Eligibility = election.Eligibility(strings.Repeat("a", 65)) }), ReasonMalformed},
		{"a state that does not print", message(t, func(m *election.Message) {
			m.States = []election.MemberReport{{ID: "3", State: "up\a"}}
		}), ReasonMalformed},
		{"an id that does not print", message(t, func(m *election.Message) { m.From = "a\u200bb" }), ReasonID},
		{"an id in another form", message(t, func(m *election.Message) { m.From = "Ma\u0301laga" }), ReasonID},
		{"one that is passed on twice", message(t, func(m *election.Message) {
			m.Carried = &election.Message{Kind: election.Relay, From: "3", Carried: &election.Message{Kind: election.Ping, From: "3"}}
		}), ReasonMalformed},
		{"one that is passed on by nobody", message(t, func(m *election.Message) { m.Carried = &election.Message{Kind: election.Ping} }), ReasonID},
		{"hops below zero", message(t, func(m *election.Message) { m.Hops = -1 }), ReasonMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := DecodeMessage(test.body)
			var b *BadFrame
			if !errors.As(err, &b) || b.Reason != test.want {
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
	if m, err := DecodeMessage(later); err != nil || m.Kind != election.Beat || m.From != "5" {
		t.Errorf("got %+v, %v", m, err)
	}
}

// An earlier version let such entries in: the members that hold them are not cut off.
func TestEntriesThatWereNeverMembersAreLeftOut(t *testing.T) {
	list := []election.Member{{Rank: election.Rank{ID: "3"}, Address: "h:1"}, {Rank: election.Rank{ID: "4"}, Address: "$(touch x):80"},
		{Rank: election.Rank{ID: "a\u202eb"}, Address: "h:2"}, {Rank: election.Rank{ID: "5"}, Address: "\x1b[31m:80"}, {Rank: election.Rank{ID: "6"}}}
	m, err := DecodeMessage(message(t, func(m *election.Message) { m.List = list }))
	if err != nil {
		t.Fatal(err)
	}
	frame, err := new(Encoder).Handshake(&Handshake{Kind: KindAdmitted, From: election.Rank{ID: "3"}, List: list})
	if err != nil {
		t.Fatal(err)
	}
	h, err := DecodeHandshake(frame[LengthSize:])
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
		if size, err := FrameSize([]byte(head), MaxFrame); err == nil {
			t.Errorf("length % x gives %d", head, size)
		}
	}
	if size, err := FrameSize([]byte("\x00\x10\x00\x00"), MaxFrame); err != nil || size != MaxFrame {
		t.Errorf("the largest frame gives %d, %v", size, err)
	}
}

func TestAFullClusterFitsInAFrame(t *testing.T) {
	m := election.Message{Kind: election.Beat, From: "5"}
	for range election.MaxMembers {
		id := election.ID(strings.Repeat("n", election.MaxID))
		m.States = append(m.States, election.MemberReport{ID: id, State: election.StateUnreachable, Epoch: election.MaxEpoch})
	}
	var e Encoder
	if _, err := e.Message(&m); err != nil {
		t.Error(err)
	}
}

// What the decoder accepts must be good for a Machine, and come out the same
// after another trip.
func FuzzMessage(f *testing.F) {
	var e Encoder
	var m election.Message
	fill(reflect.ValueOf(&m).Elem())
	for _, m := range []election.Message{m, {Kind: election.Beat, From: "5"}} {
		frame, err := e.Message(&m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(frame[LengthSize:]))
	}
	f.Add([]byte("random bytes"))
	for _, text := range []string{"\x1b[31m", "a\u202eb", "a\u200bb", "$(touch x):80", "<script>"} {
		for _, m := range []election.Message{
			{Kind: election.MessageKind(text), From: "5"}, {Kind: election.Probe, From: election.ID(text)}, {Kind: election.Probe, From: "5", Election: text},
			{Kind: election.ProbeReply, From: "5", Eligibility: election.Eligibility(text)},
			{Kind: election.Beat, From: "5", States: []election.MemberReport{{ID: "4", State: election.MemberState(text)}}},
			{Kind: election.Members, From: "5", List: []election.Member{{Rank: election.Rank{ID: "4"}, Address: text}, {Rank: election.Rank{ID: election.ID(text)}, Address: "h:1"}}},
		} {
			frame, err := e.Message(&m)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(bytes.Clone(frame[LengthSize:]))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := DecodeMessage(body)
		if err != nil {
			var b *BadFrame
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
		shown := []string{string(m.Kind), m.Election, string(m.Eligibility), string(m.From), string(m.To), string(m.Token.Leader.ID)}
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
		frame, err := e.Message(m)
		if err != nil {
			t.Skip("larger in our form than in the sender's")
		}
		again, err := DecodeMessage(frame[LengthSize:])
		if err != nil || again.Token != m.Token || again.From != m.From || len(again.States) != len(m.States) {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
	})
}

func FuzzHandshake(f *testing.F) {
	var e Encoder
	for _, h := range []Handshake{
		{Kind: KindHello, Version: ProtocolVersion, Cluster: "default", From: election.Rank{ID: "5"}, Incarnation: 1, To: "4"},
		{Kind: KindRefused, Version: ProtocolVersion, From: election.Rank{ID: "4"}, Reason: ReasonCluster},
		{Kind: KindRefused, Version: ProtocolVersion, From: election.Rank{ID: "4"}, Reason: "\x1b[31m", Detail: "a\u202eb\n"},
		{Kind: KindJoin, Version: ProtocolVersion, From: election.Rank{ID: "a\u200bb"}, Address: "$(touch x):80"},
		{Kind: KindAdmitted, Version: ProtocolVersion, From: election.Rank{ID: "4"}, Algorithm: "bully", Election: "a", TMax: 1, TProcess: 2,
			List: []election.Member{{Rank: election.Rank{ID: "6"}, Address: "\x1b[31m:80"}}},
	} {
		frame, err := e.Handshake(&h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(frame[LengthSize:]))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		h, err := DecodeHandshake(body)
		if err != nil {
			return
		}
		if h.From.ID == "" || len(h.Cluster) > MaxText || election.Shown(string(h.From.ID)) != string(h.From.ID) {
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
		Token: election.Token{Epoch: 7, Leader: election.Rank{ID: "5"}}, Highest: 7, Stamp: 123456789012, Version: 9}
	var e Encoder
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := e.Message(beat); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		frame, _ := e.Message(beat)
		for b.Loop() {
			if _, err := DecodeMessage(frame[LengthSize:]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// docs/wire-messages.md has a row for every key of a message, for other languages.
func TestEveryKeyIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/wire-messages.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(page), "### ")
	rows := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9, ]+) \| (.*) \| (.*) \|$`).FindAllStringSubmatch(table, -1) {
		for _, key := range strings.Split(row[1], ", ") {
			rows[key] = row[2]
		}
	}
	const unused = 1 // key 20
	fields := reflect.TypeFor[layout]()
	for i := range fields.NumField() {
		key, _, _ := strings.Cut(fields.Field(i).Tag.Get("cbor"), ",")
		if rows[key] == "" || strings.HasPrefix(rows[key], "unused") {
			t.Errorf("key %s, %s, has no row", key, fields.Field(i).Name)
		}
	}
	if len(rows) != fields.NumField()+unused {
		t.Errorf("%d keys have rows, and %d are used", len(rows), fields.NumField())
	}
}

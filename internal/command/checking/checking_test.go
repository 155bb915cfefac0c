package checking

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/disk/statefile"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// long is a time that no test reaches.
const long = 30 * time.Second

func planned(addr string) Plan {
	return Plan{Cluster: "c", Election: "default", Algorithm: "bully", ID: "1", Listen: "127.0.0.1:0",
		Members: []Target{{"2", addr}}, Timing: election.Timing{TMax: 5 * time.Second, TProcess: 5 * time.Second}, Limit: long}
}

// one checks p, and gives the one finding about the member.
func one(t *testing.T, p Plan) Finding {
	t.Helper()
	found := p.members(t.Context())
	if len(found) != 1 {
		t.Fatalf("want one finding, got %+v", found)
	}
	return found[0]
}

func wants(t *testing.T, p Plan, kind, what string) {
	t.Helper()
	if f := one(t, p); f.OK || f.Kind != kind || !strings.Contains(f.What, what) || f.Do == "" {
		t.Errorf("want a fault %s with %q, got %+v", kind, what, f)
	}
}

// served answers each connection until the test ends.
func served(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				answer(c)
			}()
		}
	}()
	return l.Addr().String()
}

// member answers as one that is set up like the plan, but for what change makes of the answer.
func member(t *testing.T, change func(*wire.Handshake)) string {
	return served(t, func(c net.Conn) {
		head := make([]byte, wire.LengthSize)
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head))); err != nil {
			return
		}
		h := wire.Handshake{Kind: wire.KindRefused, Version: wire.ProtocolVersion, From: election.Rank{ID: "2"}, Reason: wire.ReasonCheck,
			Algorithm: "bully", Election: "default", TMax: 5 * time.Second, TProcess: 5 * time.Second, Clock: time.Now().UnixNano()}
		change(&h)
		frame, err := new(wire.Encoder).Handshake(&h)
		if err != nil {
			t.Error(err)
		}
		c.Write(frame)
	})
}

func TestTheClocksAreCompared(t *testing.T) {
	for _, test := range []struct {
		ahead time.Duration
		want  string
	}{{90 * time.Second, "ahead of this one"}, {-90 * time.Second, "behind this one"}} {
		addr := member(t, func(h *wire.Handshake) { h.Clock = time.Now().Add(test.ahead).UnixNano() })
		p := planned(addr)
		p.Members = append(p.Members[:0], Target{"2", addr})
		wants(t, p, "clock", test.want)
	}
	if f := one(t, planned(member(t, func(*wire.Handshake) {}))); !f.OK || !strings.Contains(f.What, "its clock is within") {
		t.Errorf("got %+v", f)
	}
	// An answer without a clock has nothing on it.
	if f := one(t, planned(member(t, func(h *wire.Handshake) { h.Clock = 0 }))); !f.OK || strings.Contains(f.What, "clock") {
		t.Errorf("got %+v", f)
	}
}

func TestReleasesDiffer(t *testing.T) {
	wants(t, planned(member(t, func(h *wire.Handshake) { h.Reason, h.Version, h.Detail = wire.ReasonVersion, 9, "version 9" })), "version", "version 9")
	wants(t, planned(member(t, func(h *wire.Handshake) { h.Reason = wire.ReasonReceiver })), "version", "does not know this check")
	wants(t, planned(member(t, func(h *wire.Handshake) { h.Reason, h.Detail = wire.ReasonClosing, "it ends" })), "refused", "it ends")
	wants(t, planned(member(t, func(h *wire.Handshake) { h.Election = "other" })), "election", `"other"`)
}

// What listens need not be a member.
func TestStrangersAnswer(t *testing.T) {
	wants(t, planned(served(t, func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n"); io.Copy(io.Discard, c) })), "port", "is no member")
	wants(t, planned(served(t, func(c net.Conn) { io.ReadFull(c, make([]byte, 9)) })), "port", "ends the connection without an answer")
	p := planned(served(t, func(c net.Conn) { io.Copy(io.Discard, c) }))
	p.Limit = 2 * time.Second // a busy machine connects within it
	wants(t, p, "port", "does not answer within 2s")
	p = planned(member(t, func(h *wire.Handshake) { h.Kind, h.Reason = wire.KindWelcome, "" }))
	wants(t, p, "port", "a welcome is no answer to a check")
}

// A firewall that drops packets is as a listener whose queue is full.
func TestAPortDrops(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: at.(*syscall.SockaddrInet4).Port}).String()
	for full := 0; full < 3; { // nothing fits into the queue, and the machine did not just stall
		c, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if full++; err == nil {
			full = 0
			defer c.Close()
		}
	}
	p := planned(addr)
	p.Limit = 100 * time.Millisecond
	wants(t, p, "port", "no answer within 100ms")
}

// A network slower than t_max bears.
func TestTheRoundTripIsCompared(t *testing.T) {
	p := planned(member(t, func(h *wire.Handshake) { time.Sleep(20 * time.Millisecond); h.TMax = 10 * time.Millisecond }))
	p.Timing.TMax = 10 * time.Millisecond
	wants(t, p, "times", "--t-max 10ms is less than 4 times one way")
}

func TestALoopbackAddressServesNoOtherMachine(t *testing.T) {
	p := planned("192.0.2.1:7400")
	if found := p.addresses(); len(found) != 1 || !strings.Contains(found[0].What, "no other machine reaches this member on loopback, and member 2 is elsewhere") {
		t.Errorf("got %+v", found)
	}
	p.Listen = "nosuch.invalid:7400"
	if found := p.addresses(); len(found) != 1 || !strings.Contains(found[0].What, "does not resolve") {
		t.Errorf("got %+v", found)
	}
	p.Listen = "0.0.0.0:7400"
	if found := p.addresses(); len(found) != 0 {
		t.Errorf("got %+v", found)
	}
}

// A real member's certificate, and this one's own, end soon, or have ended.
func TestCertificatesEnd(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Now()
	authority, err := security.NewAuthority("c", 100*day)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, _, err := security.PEM(authority.Pair())
	if err != nil {
		t.Fatal(err)
	}
	caFile := write("ca.pem", ca)
	issue := func(id string, from, to time.Duration) (cert, key string) {
		pair, err := authority.Issue(security.Request{ID: id, From: now.Add(from), To: now.Add(to)})
		if err != nil {
			t.Fatal(err)
		}
		c, k, err := security.PEM(pair)
		if err != nil {
			t.Fatal(err)
		}
		return write(id+".pem", c), write(id+"-key.pem", k)
	}
	start := func(id string, from, to time.Duration) string {
		cert, key := issue(id, from, to)
		node, err := batuta.Start(context.Background(), batuta.Config{Cluster: "c", ID: batuta.ID(id), Listen: "127.0.0.1:0", Algorithm: bully.New(), TMax: 5 * time.Second, TProcess: 5 * time.Second,
			Join: []string{"127.0.0.1:1"}, Bootstrap: true, Security: batuta.Security{CertFile: cert, KeyFile: key, CAFile: caFile}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { node.Close() })
		status, err := node.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return status.Listen
	}
	plan := func(addr string) Plan {
		p := planned(addr)
		p.Join = []string{addr}
		p.Members = nil
		p.Security = security.Options{CAFile: caFile}
		p.Security.CertFile, p.Security.KeyFile = issue("1", -day, 90*day)
		return p
	}
	soon := plan(start("2", -50*day, 3*day))
	wants(t, soon, "certificate", "its certificate ends at")
	if f := one(t, plan(start("3", -50*day, 60*day))); !f.OK {
		t.Errorf("got %+v", f)
	}
	p := soon
	p.Security.CertFile, p.Security.KeyFile = issue("1", -50*day, 3*day)
	if found := p.members(t.Context()); len(found) != 2 || found[0].Kind != "certificate" || found[0].Where != p.Security.CertFile {
		t.Errorf("got %+v", found)
	}
	p.Security.CertFile, p.Security.KeyFile = issue("1", -50*day, -day)
	if found := p.members(t.Context()); len(found) != 2 || found[0].Kind != "security" || !strings.Contains(found[0].What, "expired") || !found[1].OK {
		t.Errorf("got %+v", found)
	}
}

func TestTheDisk(t *testing.T) {
	p := planned("127.0.0.1:1")
	p.DataDir = filepath.Join(t.TempDir(), "a", "b")
	if found := p.disk(); len(found) != 1 || !found[0].OK || !strings.Contains(found[0].What, "is created at the first start") {
		t.Errorf("got %+v", found)
	}
	p.Timing.TProcess = time.Nanosecond
	if found := p.disk(); len(found) != 1 || found[0].Kind != "disk" || !strings.Contains(found[0].What, "a write takes") {
		t.Errorf("got %+v", found)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(p.DataDir)), ".*"))
	if err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	damaged := t.TempDir() // on the same disk
	p.DataDir = damaged
	if err := errors.Join(os.Chmod(damaged, 0o700), os.WriteFile(filepath.Join(damaged, statefile.File), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if found := p.disk(); len(found) != 2 || found[0].Kind != "state" || found[1].Kind != "disk" {
		t.Errorf("got %+v", found)
	}
}

func TestADirectoryOfADifferentUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give a directory away")
	}
	p := planned("127.0.0.1:1")
	p.DataDir = t.TempDir()
	if err := os.Chown(p.DataDir, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if found := p.disk(); len(found) != 1 || found[0].Kind != "permission" || found[0].Do != "check as that user: sudo -u '#4242' batuta check" {
		t.Errorf("got %+v", found)
	}
}

// The reference has each key that --json prints, and each kind of finding.
func TestTheReferenceHasTheKeysAndKinds(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference-config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "## What batuta check --json prints\n")
	if !found {
		t.Fatal("the page has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	p := planned("127.0.0.1:1") // nothing listens there: a fault, with what to do
	p.JSON = true
	var out bytes.Buffer
	if err := Run(t.Context(), p, &out); err == nil {
		t.Error("a member that does not run is no fault")
	}
	var printed struct {
		OK       *bool
		Findings []map[string]any
	}
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil || printed.OK == nil {
		t.Fatalf("%v: %s", err, &out)
	}
	want := []string{"findings", "ok"}
	for _, f := range printed.Findings {
		for key := range f {
			want = append(want, "findings[]."+key)
		}
	}
	source, err := os.ReadFile("checking.go")
	member, other := os.ReadFile("member.go")
	if err = cmp.Or(err, other); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?:(?:fault|well)\(|Kind: )"([a-z]+)"`).FindAllStringSubmatch(string(source)+string(member), -1) {
		want = append(want, m[1])
	}
	slices.Sort(want)
	want = slices.Compact(want)
	var has []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		has = append(has, m[1])
	}
	slices.Sort(has)
	if !slices.Equal(has, want) {
		t.Errorf("the page has %v, want %v", has, want)
	}
}

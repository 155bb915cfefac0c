package batuta

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/net/wire"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// This file attacks a cluster that has a secret or certificates, as somebody who reaches
// every port, or as a member that has gone bad. Whatever it tries, every process lives,
// nobody's view changes, and each refusal is one count and one line of the log.

// besieged is a cluster of three under attack.
type besieged struct {
	*cluster
	t     *testing.T
	ca    *security.Authority // nil: it has a secret
	dir   string
	token Token
	log   *lines // of the leader
}

// lines keeps what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func authority(t *testing.T) *security.Authority {
	t.Helper()
	a, err := security.NewAuthority(DefaultCluster, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// write puts a certificate into files, as PEM.
func write(t *testing.T, dir, name string, c *tls.Certificate) {
	t.Helper()
	cert, key, err := security.PEM(c)
	if err != nil {
		t.Fatal(err)
	}
	writePrivate(t, filepath.Join(dir, name+".pem"), string(cert))
	writePrivate(t, filepath.Join(dir, name+"-key.pem"), string(key))
}

func member(id string) security.Request {
	now := time.Now()
	return security.Request{ID: id, From: now.Add(-time.Minute), To: now.Add(time.Hour)}
}

func issue(t *testing.T, a *security.Authority, r security.Request) *tls.Certificate {
	t.Helper()
	c, err := a.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// withCertificates has a member show the certificate in dir that is for its id.
func withCertificates(dir string) func(*Config) {
	return func(c *Config) {
		c.Security = Security{CertFile: filepath.Join(dir, string(c.ID)+".pem"), KeyFile: filepath.Join(dir, string(c.ID)+"-key.pem"),
			CAFile: filepath.Join(dir, "ca.pem")}
	}
}

// besiege starts members 1 to 3 with certificates.
func besiege(t *testing.T, change ...func(*Config)) *besieged {
	t.Helper()
	b := &besieged{cluster: newCluster(t, 3), t: t, ca: authority(t), dir: t.TempDir(), log: &lines{}}
	write(t, b.dir, "ca", b.ca.Pair())
	for _, m := range b.members {
		write(t, b.dir, string(m.ID), issue(t, b.ca, member(string(m.ID))))
		b.start(m.ID, append([]func(*Config){withCertificates(b.dir), unhurried, b.keepLog}, change...)...)
	}
	b.token = b.agree("3")
	waitLinks(t, b.nodes["3"], 2)
	return b
}

func (b *besieged) keepLog(c *Config) {
	if c.ID == "3" {
		c.Logger = slog.New(slog.NewTextHandler(b.log, nil))
	}
}

// unmoved checks that nobody's view has changed.
func (b *besieged) unmoved() {
	b.t.Helper()
	for id, n := range b.nodes {
		if got := n.Leader().Token; got != b.token {
			b.t.Errorf("member %s holds %v, and held %v", id, got, b.token)
		}
		if err := n.Err(); err != nil {
			b.t.Errorf("member %s has ended: %v", id, err)
		}
	}
}

// refused waits until the leader has refused once more for that, and checks that it
// has logged it once.
func (b *besieged) refused(why wire.Reason, before uint64) {
	b.t.Helper()
	leader := b.nodes["3"]
	within(b.t, "a refusal for "+string(why), func() bool { return statusOf(leader).Refused[string(why)] > before })
	if got := statusOf(leader).Refused[string(why)]; got != before+1 {
		b.t.Errorf("%d refusals counted for %s, want one", got-before, why)
	}
	b.unmoved()
}

// dial opens a raw connection to the leader.
func (b *besieged) dial() net.Conn {
	b.t.Helper()
	c, err := net.Dial("tcp", b.nodes["3"].Addr())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// secured opens a TLS connection with a certificate, nil: none.
func (b *besieged) secured(c *tls.Certificate) *tls.Conn {
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"batuta/1"}}
	if c != nil {
		config.Certificates = []tls.Certificate{*c}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c, nil }
	}
	return tls.Client(b.dial(), config)
}

// as opens a connection as member id, which has gone bad, in the place of its process.
func (b *besieged) as(id ID) net.Conn {
	b.t.Helper()
	b.nodes[id].Close()
	delete(b.nodes, id)
	leader := b.nodes["3"]
	within(b.t, "the process is gone", func() bool { return statusOf(leader).Links == 1 })
	c := b.secured(issue(b.t, b.ca, member(string(id))))
	if answer := say(b.t, c, helloFrom(id, "3", nil)); answer.Kind != wire.KindWelcome {
		b.t.Fatalf("answer %+v", answer)
	}
	return c
}

// turnedAway runs a handshake, says hello as member 2, and checks that nothing is answered.
func (b *besieged) turnedAway(c *tls.Conn) {
	b.t.Helper()
	if c.Handshake() != nil {
		return
	}
	frame, err := new(wire.Encoder).Handshake(helloFrom("2", "3", nil))
	if err != nil {
		b.t.Fatal(err)
	}
	c.Write(frame)
	if n, err := c.Read(make([]byte, 1)); n > 0 || isTimeout(err) {
		b.t.Errorf("it is answered, or left standing: %v", err)
	}
}

func TestPlainBytesAndOldTLSAreRefused(t *testing.T) {
	b := besiege(t)
	count := func() uint64 { return statusOf(b.nodes["3"]).Refused["security"] }

	before, c := count(), b.dial()
	frame, _ := new(wire.Encoder).Handshake(helloFrom("2", "3", nil))
	c.Write(frame)
	closed(t, c)
	b.refused(wire.ReasonSecurity, before)

	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12} {
		before := count()
		c := tls.Client(b.dial(), &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version, NextProtos: []string{"batuta/1"}})
		if c.Handshake() == nil {
			t.Errorf("%s is spoken", tls.VersionName(version))
		}
		b.refused(wire.ReasonSecurity, before)
	}
	told := func() int { return strings.Count(b.log.String(), "reason=security") }
	within(t, "a line for each refusal", func() bool { return told() >= 4 })
	if told() != 4 {
		t.Errorf("%d lines of 4 refusals:\n%s", told(), b.log)
	}
}

func TestCertificatesThatAreNotAMembersAreRefused(t *testing.T) {
	b := besiege(t)
	now := time.Now()
	other, err := security.LoadAuthority("other", filepath.Join(b.dir, "ca.pem"), filepath.Join(b.dir, "ca-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	expired, future, client := member("2"), member("2"), member("2")
	expired.From, expired.To = now.Add(-2*time.Hour), now.Add(-time.Hour)
	future.From, future.To = now.Add(time.Hour), now.Add(2*time.Hour)
	client.ID, client.Hosts = "", []string{"2"}
	for what, c := range map[string]*tls.Certificate{
		"none":                 nil,
		"of another authority": issue(t, authority(t), member("2")),
		"expired":              issue(t, b.ca, expired),
		"not yet valid":        issue(t, b.ca, future),
		"a client's":           issue(t, b.ca, client),
		"the authority's own":  b.ca.Pair(),
		"for another cluster":  issue(t, other, member("2")),
		"for another member":   issue(t, b.ca, member("1")),
	} {
		t.Run(what, func(t *testing.T) {
			b.t = t
			before := statusOf(b.nodes["3"]).Refused["security"]
			conn := b.secured(c)
			switch what {
			case "for another cluster", "for another member":
				if answer := say(t, conn, helloFrom("2", "3", nil)); answer.Reason != wire.ReasonSecurity {
					t.Errorf("answer %+v", answer)
				}
				closed(t, conn)
			default:
				b.turnedAway(conn)
			}
			b.refused(wire.ReasonSecurity, before)
		})
	}
}

// A status reports when the member's certificate ends, and the authority's, also after new
// ones have come.
func TestAStatusTellsWhenCertificatesEnd(t *testing.T) {
	c := newCluster(t, 1)
	ca, dir := authority(t), t.TempDir()
	write(t, dir, "ca", ca.Pair())
	put := func(r security.Request) { write(t, dir, "1", issue(t, ca, r)) }
	soon := member("1")
	put(soon)
	n := c.start("1", withCertificates(dir))
	ends := func(r security.Request) {
		t.Helper()
		s := statusOf(n)
		if got, want := s.Certificate.To, r.To.Truncate(time.Second); !got.Equal(want) {
			t.Errorf("the certificate ends at %v, and the status says %v", want, got)
		}
		if got, want := s.Authority.To, ca.Pair().Leaf.NotAfter; !got.Equal(want) || s.Authority.From.IsZero() {
			t.Errorf("the authority's ends at %v, and the status says %v", want, s.Authority)
		}
	}
	ends(soon)
	later := member("1")
	later.To = later.To.Add(-time.Minute)
	put(later)
	if err := n.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	ends(later)

	secret := newCluster(t, 1)
	if s := statusOf(secret.start("1", withSecret(secretFile(t, security.NewSecret())))); !s.Certificate.To.IsZero() || !s.Authority.To.IsZero() {
		t.Errorf("with a secret there is no certificate in a file, and the status tells of %v, %v", s.Certificate, s.Authority)
	}
}

func TestAMemberSpeaksForItselfAlone(t *testing.T) {
	b := besiege(t)
	c := b.as("2")
	sendTo(t, c, &election.Message{Kind: election.Coordinator, Election: DefaultElection, From: "1",
		Token: Token{Epoch: b.token.Epoch + 1, Leader: Rank{ID: "1"}}})
	closed(t, c)
	if s := statusOf(b.nodes["3"]); s.Bad[string(wire.ReasonID)] != 1 {
		t.Errorf("bad frames %v", s.Bad)
	}
	b.unmoved()
}

// A member with a certificate, or a stranger, sends what no decoder may trip over.
func TestMonstrousFramesEndTheirConnection(t *testing.T) {
	b := besiege(t)
	cert := issue(t, b.ca, member("2"))
	deep := append(bytes.Repeat([]byte{0xa1, 0x00}, 100_000), 0x00)
	nested := append(binary.BigEndian.AppendUint32(nil, uint32(len(deep))), deep...)
	for what, data := range map[string][]byte{
		"a length of 2^32-1":             []byte("\xff\xff\xff\xff"),
		"nested a hundred thousand deep": nested,
	} {
		b.t = t
		c := b.secured(cert)
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		c.Write(data)
		closed(t, c)
		bad := statusOf(b.nodes["3"]).Bad
		if bad[string(wire.ReasonLength)]+bad[string(wire.ReasonMalformed)] == 0 {
			t.Errorf("%s: bad frames %v", what, bad)
		}
	}
	// A record of TLS may claim 2^16-1 bytes; nobody waits for them but for a while.
	before := statusOf(b.nodes["3"]).Refused["security"]
	c := b.dial()
	c.Write([]byte{22, 3, 1, 0xff, 0xff})
	closed(t, c)
	b.refused(wire.ReasonSecurity, before)

	member := b.as("2")
	member.Write(nested)
	closed(t, member)
	b.unmoved()
}

// tape records what goes over connections that a member dials, in both directions.
type tape struct {
	Transport
	mu    sync.Mutex
	wrote map[net.Conn][]byte
}

type tapped struct {
	net.Conn
	tape *tape
}

func (t *tape) Dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := t.Transport.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &tapped{c, t}, nil
}

func (c *tapped) Write(b []byte) (int, error) {
	c.tape.mu.Lock()
	c.tape.wrote[c.Conn] = append(c.tape.wrote[c.Conn], b...)
	c.tape.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *tapped) CloseWrite() error { return c.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// Everything that member 3 has said to the others when it took the lead, its COORDINATOR
// among it, is played to them again: on new connections, on those that stand, and after
// they have started again.
func TestARecordingMovesNobody(t *testing.T) {
	tapes := &tape{wrote: map[net.Conn][]byte{}}
	b := besiege(t, func(c *Config) {
		if c.ID == "3" {
			tapes.Transport = c.Transport
			c.Transport = tapes
		}
	})
	tapes.mu.Lock()
	recorded := map[net.Conn][]byte{}
	for c, text := range tapes.wrote {
		recorded[c] = bytes.Clone(text)
	}
	tapes.mu.Unlock()
	if len(recorded) == 0 {
		t.Fatal("nothing is recorded")
	}
	play := func(where string) {
		for conn, text := range recorded {
			c, err := net.Dial("tcp", conn.RemoteAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(patience))
			c.Write(text)
			c.(*net.TCPConn).CloseWrite()
			if _, err := io.Copy(io.Discard, c); isTimeout(err) {
				t.Errorf("%s: the recording is listened to", where)
			}
			c.Close()
		}
		b.unmoved()
	}
	play("on new connections")
	for id := range b.nodes {
		if id == "3" {
			continue
		}
		b.kill(id)
		b.rebind(id)
		b.start(id, withCertificates(b.dir), unhurried)
		b.agree("3")
	}
	play("after they have started again")
	// The same bytes again on the connection itself: the record's number is another.
	for conn, text := range recorded {
		conn.Write(text)
	}
	within(t, "the connections are made anew", func() bool { return statusOf(b.nodes["3"]).Links == 2 })
	b.agree("3")
	b.unmoved()
}

func TestSilentAndSlowStrangersKeepNobodyOut(t *testing.T) {
	b := besiege(t, func(c *Config) { c.TMax = time.Second })
	for i := range 500 {
		c := b.dial()
		if i%2 == 0 {
			go func() { // one byte a second, of what begins well
				for _, x := range []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3} {
					if _, err := c.Write([]byte{x}); err != nil {
						return
					}
					select {
					case <-time.After(time.Second):
					case <-t.Context().Done():
						return
					}
				}
			}()
		}
	}
	b.unmoved()
	b.kill("1")
	b.rebind("1")
	b.start("1", withCertificates(b.dir), unhurried, func(c *Config) { c.TMax = time.Second })
	b.agree("3")
	b.unmoved()
}

// Who has been removed has its certificate still, and raises the version of its entry.
func TestARemovedMembersCertificateGetsNowhere(t *testing.T) {
	b := besiege(t)
	if err := b.nodes["3"].RemoveMember(t.Context(), "2"); err != nil {
		t.Fatal(err)
	}
	<-b.nodes["2"].Done()
	delete(b.nodes, "2")
	before := statusOf(b.nodes["3"]).Refused[string(wire.ReasonRemoved)]
	for _, kind := range []wire.HandshakeKind{wire.KindHello, wire.KindJoin} {
		c := b.secured(issue(t, b.ca, member("2")))
		answer := say(t, c, helloFrom("2", "3", func(h *wire.Handshake) {
			h.Kind = kind
			h.List = []election.Member{{Rank: Rank{ID: "2"}, Address: "127.0.0.1:1", Version: 1 << 40}}
		}))
		if answer.Reason != wire.ReasonRemoved {
			t.Errorf("%s is answered %+v", kind, answer)
		}
		closed(t, c)
	}
	if got := statusOf(b.nodes["3"]).Refused[string(wire.ReasonRemoved)]; got < before+2 { // its process may have dialed once more
		t.Errorf("%d refusals, want 2", got-before)
	}
	b.unmoved()
}

// With a fixed list a stranger cannot join, secured or not.
func TestAFixedListLetsNobodyIn(t *testing.T) {
	c := newCluster(t, 3)
	c.startAll(unhurried)
	token := c.agree("3")
	answer := say(t, stranger(t, c.nodes["3"]), helloFrom("0", "", func(h *wire.Handshake) {
		h.Kind, h.To, h.From.Priority = wire.KindJoin, election.None, 1<<20
	}))
	if answer.Kind != wire.KindRefused || answer.Reason != wire.ReasonNotMember || !strings.Contains(answer.Detail, "members add") {
		t.Errorf("answer %+v", answer)
	}
	c.lists("1", "2", "3")
	for id, n := range c.nodes {
		if got := n.Leader().Token; got != token {
			t.Errorf("member %s holds %v, and held %v", id, got, token)
		}
	}
	if err := c.nodes["1"].AddMember(t.Context(), Peer{ID: "0", Addr: "127.0.0.1:1"}); err != nil {
		t.Errorf("a user cannot add one: %v", err)
	}
	c.lists("0", "1", "2", "3")
}

func TestASecretIsRotatedWithoutAStop(t *testing.T) {
	path := secretFile(t, security.NewSecret())
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, 3)
	c.startAll(withSecret(path), unhurried)
	token := c.agree("3")
	fresh := security.NewSecret() + "\n"
	for _, text := range []string{string(old) + fresh, fresh + string(old), fresh} {
		writePrivate(t, path, text)
		for _, n := range c.nodes {
			if err := n.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	within(t, "links by the new secret", func() bool { return statusOf(c.nodes["3"]).Links == 2 })
	if got := c.agree("3"); got != token {
		t.Errorf("the lead went from %v to %v", token, got)
	}
	// Who has the old one alone gets nowhere, not by a session of then either.
	oldPath := filepath.Join(t.TempDir(), "old")
	writePrivate(t, oldPath, string(old))
	c.kill("1")
	c.rebind("1")
	stray := c.start("1", withSecret(oldPath), unhurried)
	waitRefused(t, stray, wire.ReasonSecurity)
	delete(c.nodes, "1")
	if got := c.agree("3"); got != token {
		t.Errorf("the lead went from %v to %v", token, got)
	}
}

// A malicious member with a certificate reports that all are removed. The others trust
// it, as they must trust a member: they are told so and end, by ErrRemoved and not
// otherwise, and their state on disk stays good.
func TestAMemberThatRemovesEveryoneIsObeyedInOrder(t *testing.T) {
	b := besiege(t)
	c := b.as("2")
	var list []election.Member
	for _, m := range b.members {
		list = append(list, election.Member{Rank: Rank{ID: m.ID}, Address: m.Addr, Version: 1 << 17, Departure: election.Removed})
	}
	sendTo(t, c, &election.Message{Kind: election.Members, Election: DefaultElection, From: "2", List: list})
	for _, id := range []ID{"1", "3"} {
		select {
		case <-b.nodes[id].Done():
			if err := b.nodes[id].Err(); !errors.Is(err, ErrRemoved) {
				t.Errorf("member %s ends with %v", id, err)
			}
		case <-time.After(patience):
			t.Fatalf("member %s does not end", id)
		}
	}
}

// What a stranger can find out of a cluster with a secret, who has seen its traffic: no
// id, no address, no leader, no cluster's name.
func TestAStrangerLearnsNothingOfACluster(t *testing.T) {
	c := newCluster(t, 2)
	c.members[0].ID, c.members[1].ID = "alpha-host", "omega-host"
	trap, err := net.Listen("tcp", "127.0.0.1:0") // in the place of a member that is not there
	if err != nil {
		t.Fatal(err)
	}
	defer trap.Close()
	cfg := Config{ID: "omega-host", Cluster: "payroll", Listen: c.members[1].Addr, Transport: c.transports[1], Algorithm: bully.New(),
		Peers:  []Peer{{ID: "alpha-host", Addr: trap.Addr().String()}, c.members[1]},
		Logger: testLog(t, "omega-host"), Security: Security{SecretFile: secretFile(t, security.NewSecret())}}
	n, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()

	// The stranger listens where a member should be, and receives the beginning of a handshake.
	victim, err := trap.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var protocols []string
	tls.Server(victim, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		protocols = hello.SupportedProtos
		return nil, errors.New("that is enough")
	}}).Handshake()
	victim.Close()
	if len(protocols) != 2 || !strings.HasPrefix(protocols[0], "batuta/1+") || protocols[1] != "batuta/foreign" {
		t.Fatalf("protocols %q", protocols)
	}

	// With what it has heard it dials, and is shown a certificate; its own is none.
	ca := authority(t)
	own := issue(t, ca, member("alpha-host"))
	heard := &bytes.Buffer{}
	for _, offered := range [][]string{protocols, protocols[1:]} {
		conn, err := net.Dial("tcp", n.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		s := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: offered, Certificates: []tls.Certificate{*own},
			VerifyConnection: func(cs tls.ConnectionState) error {
				for _, c := range cs.PeerCertificates {
					heard.Write(c.Raw)
				}
				return nil
			}})
		if s.Handshake() == nil {
			frame, _ := new(wire.Encoder).Handshake(helloFrom("alpha-host", "omega-host", func(h *wire.Handshake) { h.Cluster = "payroll" }))
			s.Write(frame)
			io.Copy(heard, s)
		}
	}
	if heard.Len() == 0 {
		t.Error("it is shown nothing: the test has lost its way in")
	}
	for _, word := range []string{"alpha", "omega", "payroll", n.Addr(), "127.0.0.1"} {
		if bytes.Contains(heard.Bytes(), []byte(word)) {
			t.Errorf("it learns %q", word)
		}
	}
	waitRefused(t, n, wire.ReasonSecurity)
}

// Wrong handshakes come one after the other. Nobody's view changes meanwhile, and the
// leader that goes in the midst of them is replaced.
func TestACrowdOfWrongHandshakesMovesNobody(t *testing.T) {
	// The crowd keeps this machine busy: no member is suspected for what that holds up.
	b := besiege(t, func(c *Config) { c.TMax = 2 * time.Second })
	crowd := fulltest.Size(400, 30_000)
	wrong := issue(t, authority(t), member("2"))
	addr := b.nodes["2"].Addr()
	half := make(chan struct{})
	var attackers sync.WaitGroup
	var done atomic.Int64
	for range 8 {
		attackers.Go(func() {
			for i := done.Add(1); i <= int64(crowd); i = done.Add(1) {
				if i == int64(crowd)/2 {
					close(half)
				}
				c, err := net.Dial("tcp", addr)
				if err != nil {
					continue
				}
				c.SetDeadline(time.Now().Add(patience))
				s := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"batuta/1"}, Certificates: []tls.Certificate{*wrong}})
				if s.Handshake() == nil {
					s.Read(make([]byte, 1))
				}
				c.Close()
			}
		})
	}
	<-half
	b.unmoved()
	b.kill("3")
	b.agree("2")
	attackers.Wait()
	b.agree("2")
}

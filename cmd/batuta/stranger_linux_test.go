package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/security"
	protocol "github.com/batuta-dev/batuta/internal/net/wire"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// listening are the addresses that others reach on machine i.
func (l *lan) listening(i int) (addrs []string) {
	l.t.Helper()
	out, err := exec.Command("ip", "netns", "exec", l.prefix+strconv.Itoa(i), "ss", "-Hltn").Output()
	if err != nil {
		l.t.Fatal(err)
	}
	host, _, _ := net.SplitHostPort(machineAddress(i))
	for line := range strings.Lines(string(out)) {
		at, port, err := net.SplitHostPort(strings.Fields(line)[3])
		if err == nil && !strings.HasPrefix(at, "127.") {
			addrs = append(addrs, net.JoinHostPort(host, port))
		}
	}
	return addrs
}

// stranger is somebody on another machine who reaches every port. It keeps all that it is told.
type stranger struct {
	heard bytes.Buffer
	own   *tls.Certificate // of an authority of its own, for a member of the cluster
	said  int              // what it was answered
	pages int              // calls for the dashboard's own file
}

// says connects, by TLS unless that is nil, says something and hears the rest.
func (s *stranger) says(addr string, by *tls.Config, text []byte) {
	raw, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp", addr)
	if err != nil {
		return
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(500 * time.Millisecond))
	c := raw
	if by != nil {
		by.InsecureSkipVerify = true
		by.VerifyConnection = func(cs tls.ConnectionState) error {
			for _, cert := range cs.PeerCertificates {
				s.heard.Write(cert.Raw)
			}
			return nil
		}
		secured := tls.Client(raw, by)
		if err := secured.Handshake(); err != nil {
			if alert := (*net.OpError)(nil); errors.As(err, &alert) && alert.Op == "remote error" {
				fmt.Fprintln(&s.heard, err) // as the other end says
			}
			return
		}
		c = secured
	}
	c.Write(text)
	n, _ := io.Copy(&s.heard, c)
	s.said += int(n)
}

// tries everything at addr.
func (s *stranger) tries(addr string) {
	hello := func(kind protocol.HandshakeKind) []byte {
		frame, err := new(protocol.Encoder).Handshake(&protocol.Handshake{Kind: kind, Version: protocol.ProtocolVersion, Cluster: "default",
			From: election.Rank{ID: "zulu", Priority: 9}, Address: "10.77.0.200:7400", Incarnation: 1 << 40})
		if err != nil {
			panic(err)
		}
		return frame
	}
	for _, kind := range []protocol.HandshakeKind{protocol.KindHello, protocol.KindJoin} {
		s.says(addr, nil, hello(kind))
		for _, alpn := range []string{"batuta/1", "batuta/1+x", "http/1.1", "h2"} {
			s.says(addr, &tls.Config{NextProtos: []string{alpn}}, hello(kind))
			s.says(addr, &tls.Config{NextProtos: []string{alpn}, Certificates: []tls.Certificate{*s.own}}, hello(kind))
		}
	}
	s.says(addr, &tls.Config{MaxVersion: tls.VersionTLS12}, nil)
	for _, call := range []string{"GET /", "GET /leader", "GET /healthz", "GET /readyz", "GET /metrics", "GET /v1/status", "GET /v1/leader", "GET /v1/members",
		"GET /v1/events", "GET /v1/trace", "GET /v1/history", "GET /v1/openapi.yaml", "GET /ui/", "GET /none", "POST /v1/resign", "POST /v1/campaign",
		"POST /v1/transfer", "POST /v1/members", "DELETE /v1/members/carol-host", "DELETE /v1/members/alfa-host", "PUT /v1/members"} {
		for _, header := range []string{"", "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n", "Origin: http://evil.example\r\n", "Accept: text/html\r\n"} {
			body := `{"id":"zulu","address":"10.77.0.200:7400"}`
			text := fmt.Appendf(nil, "%s HTTP/1.1\r\nHost: %s\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", call, addr, header, len(body), body)
			if header == "" {
				s.says(addr, nil, text)
			}
			s.says(addr, &tls.Config{NextProtos: []string{"http/1.1"}}, text)
			if call == "GET /ui/" && !strings.HasPrefix(header, "Origin") || call == "GET /" && strings.HasPrefix(header, "Accept") {
				s.pages++ // the dashboard's own file, which asks for a token
			}
		}
	}
}

// Three machines have a secret, and their HTTP API tokens. Somebody on a fourth who
// reaches all their ports learns no id, address, leader or cluster's name, and changes
// nothing.
func TestAStrangerOnTheNetworkLearnsNothing(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	l.plugInClient()
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret, tokens := file("key", security.NewSecret()+"\n"), file("tokens", security.NewSecret()+" operate\n")
	// Whatever holds this machine up, no member is suspected for it.
	flags := []string{"--t-max", "2s", "--t-process", "6s", "--cluster", "payroll", "--insecure=false", "--secret-file", secret, "--http", "0.0.0.0:7500", "--http-token-file", tokens, "--health-http", "127.0.0.1:7501"}
	ids := []string{"alfa-host", "bravo-host", "carol-host"}
	for i, id := range ids {
		flags = append(flags, "--member", id+"="+machineAddress(i+1))
	}
	for i, id := range ids {
		l.boot(i+1, id, flags...)
	}
	l.until("all follow the highest", func() bool { return l.follow("carol-host", l.members...) })
	access := []string{"--cluster", "payroll", "--secret-file", secret, "--http-token-file", tokens}
	ask := func(i int, args ...string) string {
		t.Helper()
		host, _, _ := net.SplitHostPort(machineAddress(i))
		argv := l.in(i, slices.Concat([]string{"batuta"}, args, []string{"--http", host + ":7500"}, access)...)
		out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if got := ask(1, "leader"); got != "carol-host\n" {
		t.Errorf("who has a token is told %q", got)
	}
	members := ask(1, "members")

	var addrs []string
	for i := range ids {
		own := l.listening(i + 1)
		if len(own) != 2 { // the members' port, and the API's
			t.Errorf("machine %d listens on %q", i+1, own)
		}
		if i == 2 || fulltest.Enabled() { // the leader's, at least
			addrs = append(addrs, own...)
		}
	}
	authority, err := security.NewAuthority("payroll", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := authority.Issue(security.Request{ID: "carol-host", From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	l.mark()
	s, done := &stranger{own: certificate}, make(chan struct{})
	l.inside("client", func() {
		defer close(done)
		for _, addr := range addrs {
			s.tries(addr)
		}
	})
	<-done
	if s.said == 0 {
		t.Error("it is answered nothing at all: it has not reached the ports")
	}
	for _, word := range append(ids, "payroll", "10.77.0.", ":7400", `"leader":`) {
		if at := bytes.Index(s.heard.Bytes(), []byte(word)); at >= 0 {
			t.Errorf("it hears %q: …%q…", word, s.heard.Bytes()[max(0, at-200):min(at+50, s.heard.Len())])
		}
	}
	if n := bytes.Count(s.heard.Bytes(), []byte("200 OK")); n > s.pages {
		t.Errorf("%d calls are answered, and %d are for the dashboard's own file", n, s.pages)
	}
	l.undisturbed(200*time.Millisecond, "carol-host", l.members...)
	if now := ask(1, "members"); len(strings.Fields(now)) != len(strings.Fields(members)) {
		t.Errorf("the members are now\n%s\nand were\n%s", now, members)
	}
}

package boss_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/compat/boss"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/testkit/leaktest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(memberSpec); spec != "" {
		beMember(spec)
		return
	}
	fulltest.MostlyWait(24)
	leaktest.Main(m)
}

// quick has waits end soon: 2·t_max is 200 ms.
func quick(c *batuta.Config, _ *boss.Options) {
	c.Heartbeat, c.TMax, c.TProcess = 50*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
}

// talk connects to a member from another address and gives the connection.
func talk(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	nc, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return nc
}

func framed(body string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...)
}

// closed waits until the other end has closed the connection.
func closed(t *testing.T, nc net.Conn) []byte {
	t.Helper()
	said, err := io.ReadAll(nc)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection is not closed: %v", err)
	}
	return said
}

func TestBadFramesEndTheirConnectionAndNothingElse(t *testing.T) {
	c := newCity(t, "127.0.0.3", "127.0.0.4", "127.0.0.5")
	n := c.start("127.0.0.5", quick)
	token := waitLeader(t, n, "127.0.0.5")
	for _, bad := range []struct {
		name, reason string
		data         []byte
		hold         bool // nothing follows, and the connection stays open
	}{
		{"garbage", "malformed", framed("\x00\xff not JSON"), false},
		{"no object", "malformed", framed(`[1,2,3]`), false},
		{"a deep nest", "malformed", framed(strings.Repeat("[", 60000)), false},
		{"half a message", "cut", framed(`{"type":"election","ip":"127.0.0.3","port":1}`)[:20], false},
		{"half a length", "cut", []byte{0}, false},
		{"a message that drips", "slow", framed(`{"type":"election"`)[:9], true},
		{"silence", "slow", nil, true},
		{"a length that lies high", "slow", append([]byte{0xff, 0xff}, `{"type":"election"}`...), true},
		{"a length that lies low", "malformed", append([]byte{0, 5}, `{"type":"election"}`...), false},
		{"a length of nothing", "length", []byte{0, 0}, false},
		{"no address", "id", framed(`{"type":"election","ip":"scrapper","port":8080}`), false},
		{"another's address", "id", framed(`{"type":"new_boss","node_type":"scrapper","ip":"127.0.0.4","port":8080}`), false},
		{"no port", "malformed", framed(`{"type":"new_boss","node_type":"scrapper","ip":"127.0.0.3","port":0}`), false},
		{"a field of another type", "malformed", framed(`{"type":"identification","ip":{"a":1},"port":"x"}`), false},
	} {
		t.Run(bad.name, func(t *testing.T) {
			before := statusOf(n).Bad[bad.reason]
			nc := talk(t, "127.0.0.3", c.address("127.0.0.5"))
			nc.Write(bad.data)
			if !bad.hold {
				nc.(*net.TCPConn).CloseWrite()
			}
			if said := closed(t, nc); len(said) > 0 {
				t.Errorf("it is answered: %q", said)
			}
			if after := statusOf(n).Bad[bad.reason]; after != before+1 {
				t.Errorf("counted %d times as %s: %v", after-before, bad.reason, statusOf(n).Bad)
			}
		})
	}
	if v := n.Leader(); v.Token != token {
		t.Errorf("the leadership has moved: %s, was %s", v.Token, token)
	}
}

// A client that reaches the port cannot fill the disk: each bad frame is counted, and the log has
// one line for each reason.
func TestAFloodOfBadFramesIsAFewLinesOfTheLog(t *testing.T) {
	c := newCity(t, "127.0.0.3", "127.0.0.5")
	log, began := new(logged), time.Now()
	n := c.start("127.0.0.5", quick, func(cfg *batuta.Config, _ *boss.Options) {
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	waitLeader(t, n, "127.0.0.5")
	const each = 100
	for range each {
		for _, data := range [][]byte{framed("\x00\xff not JSON"), {0}} {
			nc := talk(t, "127.0.0.3", c.address("127.0.0.5"))
			nc.Write(data)
			nc.(*net.TCPConn).CloseWrite()
			closed(t, nc)
		}
	}
	if bad := statusOf(n).Bad; bad["malformed"]+bad["cut"]+bad["slow"] != 2*each { // slow: the machine was
		t.Errorf("counted %v, want %d", bad, 2*each)
	}
	minutes := 1 + int(time.Since(began)/time.Minute)
	if lines := log.count("its connection is closed"); lines < 1 || lines > 3*minutes {
		t.Errorf("%d lines, want one a minute for each reason:\n%s", lines, log.text.String())
	}
}

func TestWhatIsNotOursIsSkipped(t *testing.T) {
	c := newCity(t, "127.0.0.3", "127.0.0.5")
	n := c.start("127.0.0.5", quick)
	waitLeader(t, n, "127.0.0.5")
	for _, body := range []string{
		`{"type":"task","ip":{"any":"thing"},"port":[1]}`,
		`{"type":"status_update"}`,
		`{"no":"type"}`,
		`{"type":"new_boss","node_type":"indexer","ip":"127.0.0.3","port":8080}`, // another kind of node
		`{"type":"election","ip":"127.0.0.5","port":8080}`,
	} {
		from := "127.0.0.3"
		if strings.Contains(body, "127.0.0.5") {
			from = "127.0.0.5"
		}
		nc := talk(t, from, c.address("127.0.0.5"))
		nc.Write(framed(body))
		if said := closed(t, nc); len(said) > 0 {
			t.Errorf("%s is answered: %q", body, said)
		}
	}
	if s := statusOf(n); len(s.Bad) > 0 || s.Leader != "127.0.0.5" {
		t.Errorf("counted as bad: %v; leader %s", s.Bad, s.Leader)
	}
}

// A subordinate that sends and never reads must not hold the boss up.
func TestAPeerThatNeverReads(t *testing.T) {
	t.Parallel()
	c := newCity(t, "127.0.0.3", "127.0.0.5")
	n := c.start("127.0.0.5", func(cfg *batuta.Config, o *boss.Options) {
		o.Heartbeat = time.Millisecond
		cfg.TMax = 5 * time.Second // a busy machine may take its time between two frames
	})
	token := waitLeader(t, n, "127.0.0.5")
	nc := talk(t, "127.0.0.3", c.address("127.0.0.5"))
	nc.(*net.TCPConn).SetReadBuffer(1)
	nc.Write(framed(`{"type":"identification","node_type":"scrapper","ip":"127.0.0.3","port":9,"is_boss":false}`))
	body := framed(`{"type":"status_update","x":"` + strings.Repeat("x", 60000) + `"}`)
	for range 100 {
		if _, err := nc.Write(body); err != nil {
			t.Fatal("the boss does not read what it skips: ", err)
		}
	}
	if err := n.Close(); err != nil { // returns although the peer reads nothing
		t.Error(err)
	}
	if token.Epoch != 1 {
		t.Errorf("token %s", token)
	}
}

func TestADeafPeerIsNoPeer(t *testing.T) {
	c := newCity(t, "127.0.0.3", "127.0.0.4")
	l, err := net.Listen("tcp", c.address("127.0.0.4")) // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := c.start("127.0.0.3", quick)
	waitLeader(t, n, "127.0.0.3")
}

// The original says "who are you?" without its address.
func TestWhoAreYouWithoutAnAddress(t *testing.T) {
	c := newCity(t, "127.0.0.3", "127.0.0.5")
	n := c.start("127.0.0.5", quick, func(cfg *batuta.Config, _ *boss.Options) { cfg.Peers = nil })
	waitLeader(t, n, "127.0.0.5")
	for _, port := range []string{`,"node_port":4711`, ""} {
		nc := talk(t, "127.0.0.3", c.address("127.0.0.5"))
		nc.Write(framed(`{"type":"identification","node_type":"scrapper","is_boss":false,"is_temporary":true` + port + `}`))
		if said := closed(t, nc); !bytes.Contains(said, []byte(`"is_boss":true`)) {
			t.Errorf("it is answered %q", said)
		}
		if a, ok := addressOf(n, "127.0.0.3"); a != "127.0.0.3:4711" || !ok {
			t.Errorf("with%s it is registered at %q", port, a)
		}
	}
	if s := statusOf(n); len(s.Bad) > 0 {
		t.Errorf("counted as bad: %v", s.Bad)
	}
}

// addressOf is where n believes a member to listen.
func addressOf(n *batuta.Node, id batuta.ID) (string, bool) {
	for _, m := range statusOf(n).Members {
		if m.ID == id {
			return m.Address, true
		}
	}
	return "", false
}

// An original node never misses a boss whose heartbeat it has never had.
func TestTheFirstHeartbeatIsSentAtOnce(t *testing.T) {
	c := newCity(t, "127.0.0.3", "127.0.0.5")
	n := c.start("127.0.0.5", quick, func(_ *batuta.Config, o *boss.Options) { o.Heartbeat = time.Hour })
	waitLeader(t, n, "127.0.0.5")
	nc := talk(t, "127.0.0.3", c.address("127.0.0.5"))
	nc.Write(framed(`{"type":"identification","node_type":"scrapper","ip":"127.0.0.3","port":9,"is_boss":false}`))
	var said []byte
	for !bytes.Contains(said, []byte(`"heartbeat"`)) {
		part := make([]byte, 4096)
		got, err := nc.Read(part)
		if err != nil {
			t.Fatalf("%v after %q", err, said)
		}
		said = append(said, part[:got]...)
	}
	if bytes.Index(said, []byte(`"identification"`)) > bytes.Index(said, []byte(`"heartbeat"`)) {
		t.Errorf("the heartbeat comes first: %q", said)
	}
}

func TestAnElectionIsAnsweredOnlyFromAbove(t *testing.T) {
	c := newCity(t, "127.0.0.9", "127.0.0.10", "127.0.0.11")
	waitLeader(t, c.start("127.0.0.10", quick), "127.0.0.10")
	for from, answered := range map[string]bool{"127.0.0.9": true, "127.0.0.11": false} {
		nc := talk(t, from, c.address("127.0.0.10"))
		nc.Write(framed(`{"type":"election","ip":"` + from + `","port":9}`))
		if said := closed(t, nc); bytes.Contains(said, []byte(`"election_response"`)) != answered {
			t.Errorf("%s is answered %q", from, said)
		}
	}
}

// logged keeps what is logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), s)
}

func TestTextOrderIsWarnedOfOnce(t *testing.T) {
	for _, ips := range [][]string{{"127.0.0.8", "127.0.0.9", "127.0.0.10", "127.0.0.11"}, {"127.0.0.10", "127.0.0.11"}} {
		c := newCity(t, ips...)
		log := new(logged)
		n := c.start(ips[0], quick, func(cfg *batuta.Config, _ *boss.Options) {
			cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
		})
		waitLeader(t, n, ips[0])
		n.Close()
		if got, want := log.count("compares them as text"), map[bool]int{true: 1}[ips[0] == "127.0.0.8"]; got != want {
			t.Errorf("%v: warned %d times, want %d", ips, got, want)
		}
	}
}

func TestAFrozenForeignBossIsDead(t *testing.T) {
	t.Parallel()
	c := newCity(t, "127.0.0.3", "127.0.0.4")
	four := c.foreign("127.0.0.4")
	n := c.start("127.0.0.3", quick, func(_ *batuta.Config, o *boss.Options) {
		o.Heartbeat, o.Silence = 100*time.Millisecond, 300*time.Millisecond
	})
	first := waitLeader(t, n, "127.0.0.4")
	four.cmd.Process.Signal(syscall.SIGSTOP)
	second := waitLeader(t, n, "127.0.0.3")
	four.cmd.Process.Signal(syscall.SIGCONT)
	if !second.Above(first) {
		t.Errorf("after %s: %s", first, second)
	}
}

func TestANodeThatPresentsItselfIsRegistered(t *testing.T) {
	c := newCity(t, "127.0.0.3", "127.0.0.4")
	n := c.start("127.0.0.3", quick, func(cfg *batuta.Config, _ *boss.Options) { cfg.Peers = nil })
	waitLeader(t, n, "127.0.0.3")
	c.foreign("127.0.0.4")
	waitLeader(t, n, "127.0.0.4")
}

func TestANameThatListsThemAll(t *testing.T) {
	c := newCity(t, "127.0.0.1")
	_, port, _ := net.SplitHostPort(c.address("127.0.0.1"))
	three := newCity(t, "127.0.0.3")
	old := c.start("127.0.0.1", patient)
	waitLeader(t, old, "127.0.0.1")
	n := three.start("127.0.0.3", patient, func(cfg *batuta.Config, _ *boss.Options) {
		cfg.Peers, cfg.Join = nil, []string{"localhost:" + port}
	})
	waitLeader(t, n, "127.0.0.1") // it follows who is there
}

func TestFaultsOfTheConfiguration(t *testing.T) {
	for want, change := range map[string]func(*batuta.Config, *boss.Options){
		"node type":  func(_ *batuta.Config, o *boss.Options) { o.NodeType = "" },
		"IP address": func(c *batuta.Config, _ *boss.Options) { c.ID, c.Peers = "five", nil },
		"priority":   func(c *batuta.Config, _ *boss.Options) { c.Priority = 1 },
		"observer":   func(c *batuta.Config, _ *boss.Options) { c.Observer = true },
		"member's id is its IP address": func(c *batuta.Config, _ *boss.Options) {
			c.Peers = []batuta.Peer{{ID: "127.0.0.4", Addr: "127.0.0.6:8080"}}
		},
	} {
		c := newCity(t, "127.0.0.5")
		o := boss.Options{NodeType: "scrapper"}
		cfg := c.config("127.0.0.5")
		change(&cfg, &o)
		cfg.Wire = boss.New(o)
		if err := cfg.Validate(); !errors.Is(err, batuta.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestOneHostCannotTakeAllPlaces(t *testing.T) {
	c := newCity(t, "127.0.0.3", "127.0.0.4", "127.0.0.5")
	n := c.start("127.0.0.5") // its guests have 3 s
	waitLeader(t, n, "127.0.0.5")
	for range 16 {
		talk(t, "127.0.0.3", c.address("127.0.0.5"))
	}
	closed(t, talk(t, "127.0.0.3", c.address("127.0.0.5")))
	if got := statusOf(n).Bad["crowded"]; got != 1 {
		t.Errorf("%d shown out, want 1", got)
	}
	nc := talk(t, "127.0.0.4", c.address("127.0.0.5"))
	nc.Write(framed(`{"type":"identification","node_type":"scrapper","ip":"127.0.0.4","port":9,"is_temporary":true}`))
	if said := closed(t, nc); !bytes.Contains(said, []byte(`"is_boss":true`)) {
		t.Errorf("another host is answered %q", said)
	}
}

// "Scrapper" announces by an identification that does not say it is temporary. An
// announcer that then cannot be reached does not lead for long.
func TestTheAnnouncementAsSource002ShowsIt(t *testing.T) {
	c := newCity(t, "127.0.0.3", "127.0.0.4")
	n := c.start("127.0.0.3", quick)
	first := waitLeader(t, n, "127.0.0.3")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var led []batuta.Token
	for v := range n.Watch(ctx) {
		if len(led) == 0 {
			nc := talk(t, "127.0.0.4", c.address("127.0.0.3"))
			nc.Write(framed(`{"type":"identification","node_type":"scrapper","ip":"127.0.0.4","port":9,"is_boss":true}`))
			closed(t, nc)
		}
		if v.Defined() {
			led = append(led, v.Token)
		}
		if len(led) == 3 {
			break
		}
	}
	if len(led) != 3 || led[0] != first || led[1].Leader.ID != "127.0.0.4" || led[2].Leader.ID != "127.0.0.3" ||
		!led[1].Above(led[0]) || !led[2].Above(led[1]) {
		t.Errorf("led by %v", led)
	}
}

package batuta

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// secretFile writes secrets as "batuta secret new" does.
func secretFile(t *testing.T, secrets ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.key")
	writePrivate(t, path, strings.Join(secrets, "\n")+"\n")
	return path
}

func writePrivate(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// withSecret has a member prove itself by the secret in a file.
func withSecret(path string) func(*Config) {
	return func(c *Config) { c.Security.SecretFile = path }
}

func TestMembersWithOneSecretElectAndFailOver(t *testing.T) {
	c := newCluster(t, 3)
	secret := withSecret(secretFile(t, security.NewSecret()))
	c.startAll(secret, unhurried)
	c.agree("3")
	if s := statusOf(c.nodes["3"]); s.Security != "secret" {
		t.Errorf("status says %q", s.Security)
	}
	led := c.agree("3")
	views, err := c.nodes["1"].AskMembers(t.Context())
	if err != nil || len(views) != 2 || views[0].Token != led || views[1].Token != led {
		t.Errorf("asked, the members answer %+v, %v", views, err)
	}
	c.kill("3")
	c.agree("2")
	c.rebind("3")
	c.start("3", secret, unhurried)
	c.agree("3")
}

func TestAnotherSecretIsRefusedAndTold(t *testing.T) {
	c := newCluster(t, 2)
	c.start("2", withSecret(secretFile(t, security.NewSecret())), unhurried)
	c.agree("2")
	token := c.nodes["2"].Leader().Token
	stray := c.start("1", withSecret(secretFile(t, security.NewSecret())), unhurried)
	waitRefused(t, stray, wire.ReasonSecurity)
	waitRefused(t, c.nodes["2"], wire.ReasonSecurity)
	if got := c.nodes["2"].Leader().Token; got != token {
		t.Errorf("it holds %v, and held %v", got, token)
	}
	within(t, "it stands aside as refused", func() bool { return statusOf(stray).Standing == StandingRefused })
	if s := statusOf(stray); s.Token.Defined() || !strings.Contains(s.StandingWhy, "member 2 (security: ") || !strings.HasSuffix(s.StandingWhy, ": give all members one secret, or certificates of one authority") {
		t.Errorf("the member with another secret has leader %q and says %q", s.Leader, s.StandingWhy)
	}
}

// Another server at the address of a dead member is no member that refuses: of two members, the one that starts again leads.
func TestAnotherServerAtADeadMembersAddressRefusesNobody(t *testing.T) {
	for name, serve := range map[string]func(*httptest.Server){"HTTP": (*httptest.Server).Start, "HTTPS": (*httptest.Server).StartTLS} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2)
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.Listener.Close()
			c.transports[1].Kill()
			l, err := net.Listen("tcp", c.members[1].Addr)
			if err != nil {
				t.Fatal(err)
			}
			s.Listener, s.Config.ErrorLog = l, log.New(io.Discard, "", 0)
			serve(s)
			t.Cleanup(s.Close)
			n := c.start("1", withSecret(secretFile(t, security.NewSecret())))
			c.agree("1")
			waitRefused(t, n, wire.ReasonSecurity)
			if got := statusOf(n).Standing; got != StandingEligible {
				t.Errorf("member 1 is %q, want a candidate", got)
			}
		})
	}
}

// A member without the secret, and one with it, refuse each other: one of them leads.
func TestAMemberWithoutTheSecretDoesNotLeadBesideOneWithIt(t *testing.T) {
	t.Parallel()
	for _, secured := range []ID{"1", "2"} {
		c := newCluster(t, 2)
		secret := withSecret(secretFile(t, security.NewSecret()))
		for _, id := range []ID{"2", "1"} {
			if id == secured {
				c.start(id, secret)
			} else {
				c.start(id)
			}
		}
		waitStatus(t, c.nodes["2"], "it leads", func(s Status) bool { return s.Leader == "2" })
		s := waitStatus(t, c.nodes["1"], "it stands aside as refused", func(s Status) bool { return s.Standing == StandingRefused })
		if s.Token.Defined() {
			t.Errorf("member 1 has %v for its leader", s.Token)
		}
	}
}

// A newcomer without the secret reports that, not that no process answers, also in its event.
func TestANewcomerWithoutTheSecretReportsThat(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	c.start("2", withSecret(secretFile(t, security.NewSecret())))
	c.agree("2")
	n := c.start("1", func(cfg *Config) { cfg.Peers, cfg.Join, cfg.Bootstrap = nil, []string{c.members[1].Addr}, false })
	for ev, err := range n.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == EventStanding {
			if want := "it cannot join through " + c.members[1].Addr + ": it requires TLS, and this member has neither a secret nor certificates"; !strings.HasPrefix(ev.Why, want) {
				t.Errorf("the event has %q, want %q", ev.Why, want)
			}
			break
		}
	}
	if s := statusOf(n); s.Standing != StandingJoining || !strings.Contains(s.StandingWhy, "requires TLS") {
		t.Errorf("standing %s: %q", s.Standing, s.StandingWhy)
	}
}

// Members that are set up differently each report what differs, in plain words.
func TestMembersThatProveThemselvesDifferentlyAreTold(t *testing.T) {
	one, other := secretFile(t, security.NewSecret()), secretFile(t, security.NewSecret())
	in := func(cluster, secret string) func(*Config) {
		return func(cfg *Config) { cfg.Cluster, cfg.Security.SecretFile = cluster, secret }
	}
	for name, test := range map[string]struct {
		first, second func(*Config)
		says1, says2  string // of the other one
	}{
		"another secret":  {in("a", one), in("a", other), "another secret", "another secret"},
		"another cluster": {in("a", one), in("b", one), "another cluster", "another cluster"},
		"no secret":       {in("a", one), in("a", ""), "speaks without TLS", "requires TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2)
			nodes := map[ID]*Node{"2": c.start("1", test.first), "1": c.start("2", test.second)} // by whom they look at
			for of, want := range map[ID]string{"2": test.says1, "1": test.says2} {
				words := func() string {
					for _, m := range statusOf(nodes[of]).Members {
						if m.ID == of {
							return m.Refusal
						}
					}
					return ""
				}
				within(t, "that it says of member "+string(of)+": "+want, func() bool { return strings.Contains(words(), want) })
			}
			for of, n := range nodes {
				if bad := statusOf(n).Bad; len(bad) > 0 {
					t.Errorf("what member %s says counts as bad frames: %v", of, bad)
				}
			}
		})
	}
}

// One that is not let in keeps asking. The others, who say to each other that they do not
// reach it either, elect and fail over, and refuse nothing of each other's.
func TestWhoIsNotLetInPartsNobody(t *testing.T) {
	c := newCluster(t, 3)
	secret := withSecret(secretFile(t, security.NewSecret()))
	c.startAll(func(cfg *Config) {
		if secret(cfg); cfg.ID == "1" {
			cfg.Security.SecretFile = secretFile(t, security.NewSecret())
		}
	})
	waitRefused(t, c.nodes["1"], wire.ReasonSecurity)
	delete(c.nodes, "1")
	c.agree("3")
	c.kill("3")
	c.agree("2")
	c.rebind("3")
	c.start("3", secret)
	c.agree("3")
	waitRefused(t, c.nodes["3"], wire.ReasonSecurity)
	for id, n := range c.nodes {
		if bad := statusOf(n).Bad; len(bad) > 0 {
			t.Errorf("member %s refuses what the other says: %v", id, bad)
		}
	}
}

// waitRefused waits until a member has counted a refusal.
func waitRefused(t *testing.T, n *Node, why wire.Reason) {
	t.Helper()
	within(t, "a refusal for "+string(why), func() bool { return statusOf(n).Refused[string(why)] > 0 })
}

func TestWhatProvesAMemberIsCheckedBeforeItStarts(t *testing.T) {
	open := secretFile(t, security.NewSecret())
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what     string
		security Security
		want     string
	}{
		{"a secret that others can read", Security{SecretFile: open}, "chmod 600 " + open},
		{"a weak secret", Security{SecretFile: secretFile(t, "hunter2")}, "batuta secret new"},
		{"no secret", Security{SecretFile: secretFile(t)}, "batuta secret new"},
		{"no file", Security{SecretFile: "/nowhere"}, "/nowhere"},
		{"a certificate without a key", Security{CertFile: "cert.pem"}, "give all three"},
		{"a template without an id", Security{CertFile: "c", KeyFile: "k", CAFile: "a", IDTemplate: "spiffe://x"}, "{id}"},
	} {
		err := Config{Algorithm: Algorithm(nil), ID: "1", Security: test.security}.Validate()
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want it to say %q", test.what, err, test.want)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the secret is told: %v", test.what, err)
		}
	}
}

// within waits until something is so, as nothing tells that it has come to be.
func within(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// With every line of the log there is, the secret and what is derived of it are in none,
// nor in what the node reports of itself.
func TestNothingTellsASecret(t *testing.T) {
	secret := security.NewSecret()
	path := secretFile(t, secret)
	var told lines
	c := newCluster(t, 2)
	c.startAll(withSecret(path), func(c *Config) {
		c.Logger = slog.New(slog.NewJSONHandler(&told, &slog.HandlerOptions{Level: slog.LevelDebug - 8}))
	})
	c.agree("2")
	stranger(t, c.nodes["2"]).Write([]byte(secret)) // as by a mistake
	waitRefused(t, c.nodes["2"], wire.ReasonSecurity)
	writePrivate(t, path, secret+"\n"+secret[:20]+"\n")
	if err := c.nodes["1"].Reload(t.Context()); err == nil {
		t.Error("a broken file is read")
	} else {
		told.Write([]byte(err.Error()))
	}
	for _, n := range c.nodes {
		fmt.Fprintf(&told, "%+v %+v %+v", statusOf(n), n.Trace(), n.cfg)
	}
	raw, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{secret, secret[:20], string(raw), hex.EncodeToString(raw), fmt.Sprint(raw)} {
		if strings.Contains(told.String(), form) {
			t.Error("the secret is told")
		}
	}
}

// Each trip takes nearly t_max. A dial takes six of them with TLS, and is borne: nobody
// takes another for dead, though connections have to be made.
func TestMembersWithASecretBearSlowTrips(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		secret := withSecret(secretFile(t, security.NewSecret()))
		c.memory.Takes = func() time.Duration { return election.DefaultTMax - oneWay }
		c.startAll(secret)
		token := c.agree("3")
		time.Sleep(time.Minute)
		if got := c.agree("3"); got != token {
			t.Errorf("the lead went from %v to %v", token, got)
		}
		c.kill("3")
		token = c.agree("2")
		time.Sleep(time.Minute)
		if got := c.agree("2"); got != token {
			t.Errorf("the lead went from %v to %v", token, got)
		}
		for id, n := range c.nodes {
			if s := statusOf(n); s.Lost[CauseSilent] > 0 {
				t.Errorf("member %s lost leaders by %v", id, s.Lost)
			}
		}
	})
}

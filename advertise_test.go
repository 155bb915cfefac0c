package batuta

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election/bully"
)

func TestWhoListensEverywhereTellsWhereItIsReached(t *testing.T) {
	c := newCluster(t, 3)
	c.start("1", func(cfg *Config) { cfg.Peers = nil })
	c.agree("1")
	for id, listen := range map[ID]string{"2": "0.0.0.0:0", "3": ":0"} {
		n := c.start(id, func(cfg *Config) {
			*cfg = Config{ID: id, Listen: listen, Join: []string{c.members[0].Addr}, Algorithm: bully.New(), Logger: testLog(t, id)}
		})
		_, port, _ := net.SplitHostPort(n.Addr())
		if got, want := statusOf(n).Advertise, "127.0.0.1:"+port; got != want {
			t.Errorf("member %s listens on %s and advertises %s, want %s", id, n.Addr(), got, want)
		}
	}
	c.agree("3")
	for _, m := range statusOf(c.nodes["1"]).Members {
		if everywhere(m.Address) {
			t.Errorf("member %s is listed at %s", m.ID, m.Address)
		}
	}
}

func TestWhereAMemberIsReached(t *testing.T) {
	l := &links{ground: &ground{addr: "[::]:7400"}}
	for _, tt := range []struct {
		to   []string
		want string
	}{
		{nil, ""},
		{[]string{"256.0.0.1:7400"}, ""},
		{[]string{"127.0.0.1:7400"}, "127.0.0.1:7400"},
		{[]string{"no address", "127.0.0.2:1"}, "127.0.0.1:7400"},
	} {
		if got := l.route(t.Context(), tt.to); tt.want != got {
			t.Errorf("to %q: %q, want %q", tt.to, got, tt.want)
		}
	}
}

// A machine of several addresses is to publish the same one at each start.
func TestTheFirstRouteGivesTheAddress(t *testing.T) {
	l := &links{ground: &ground{addr: "[::]:7400"}}
	for _, to := range [][]string{{"127.0.0.1:1", "[::1]:1"}, {"[::1]:1", "127.0.0.1:1"}} {
		want := l.route(t.Context(), to[:1])
		for range 200 {
			if got := l.route(t.Context(), to); want != "" && got != want {
				t.Fatalf("to %q: %q, want %q", to, got, want)
			}
		}
	}
}

// misled dials another address than it is told to.
type misled struct {
	Transport
	wrong, right string
}

func (m misled) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if addr == m.wrong {
		addr = m.right
	}
	return m.Transport.Dial(ctx, addr)
}

// The list has for member 2 an address at which member 3 is, or this member itself.
func TestAnAddressThatLeadsToAnotherIsSaidOnce(t *testing.T) {
	for found, want := range map[ID]string{
		"3": "address 127.0.0.1:9999 of member 2 leads to member 3",
		"1": "address 127.0.0.1:9999 of member 2 leads back to this member, 1",
	} {
		virtually(t, func(t *testing.T) {
			c := newVirtualCluster(t, 3)
			c.start("3", func(cfg *Config) { cfg.Peers = nil })
			var out bytes.Buffer
			one := c.start("1", func(cfg *Config) {
				cfg.Peers = []Peer{{ID: "2", Addr: "127.0.0.1:9999"}}
				at := map[ID]string{"1": c.members[0].Addr, "3": c.members[2].Addr}[found]
				cfg.Transport = misled{cfg.Transport, "127.0.0.1:9999", at}
				cfg.Logger = slog.New(slog.NewTextHandler(&out, nil))
			})
			time.Sleep(10 * time.Second) // virtual
			s := statusOf(one)
			if got := s.Members[1].Refusal; !strings.Contains(got, want) {
				t.Errorf("the status says of member 2 %q, want %q", got, want)
			}
			if s.Refused["receiver"] < 2 {
				t.Errorf("it was tried %d times, and to be said once is nothing then", s.Refused["receiver"])
			}
			one.Close()
			if n := strings.Count(out.String(), want); n != 1 || strings.Count(out.String(), "receiver") != 1 {
				t.Errorf("the log says it %d times:\n%s", n, out.String())
			}
		})
	}
}

// A list that has this member at another address than its own is told of: the others dial it there.
func TestAMemberListThatIsWrongAboutThisMemberIsWarnedOf(t *testing.T) {
	for _, tt := range []struct {
		what, list, advertise string
		want                  bool
	}{
		{"another port", "127.0.0.1:1", "", true},
		{"another address", "127.0.0.9:PORT", "", true},
		{"its own", "127.0.0.1:PORT", "", false},
		{"a name", "localhost:PORT", "", false},
		{"as told by hand", "127.0.0.1:1", "127.0.0.1:1", false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				c := newVirtualCluster(t, 2)
				_, port, _ := net.SplitHostPort(c.members[0].Addr)
				var out bytes.Buffer
				n := c.start("1", func(cfg *Config) {
					cfg.Peers = []Peer{{ID: "1", Addr: strings.ReplaceAll(tt.list, "PORT", port)}, c.members[1]}
					cfg.Advertise = tt.advertise
					cfg.Logger = slog.New(slog.NewTextHandler(&out, nil))
				})
				n.Close()
				if got := strings.Contains(out.String(), "where it does not listen"); got != tt.want {
					t.Errorf("warned: %v, want %v\n%s", got, tt.want, out.String())
				}
			})
		})
	}
}

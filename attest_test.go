package batuta

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/core/attest"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/net/transport"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/quorum"
)

// heldOath is a guard that does nothing with what it is to attest.
type heldOath struct {
	mu   sync.Mutex
	oath attest.Oath
}

func (g *heldOath) Swear(o attest.Oath) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.oath = o
}

func (g *heldOath) Bars() string { return "it is a test's" }

func (g *heldOath) held() attest.Oath {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.oath
}

// The secret of a leader's guard ends its leadership at once, whoever brings it: without a key
// where members have keys. No other secret does, and one that is wrong is counted.
func TestAnAttestedLeaderIsReplacedAtOnce(t *testing.T) {
	for _, mode := range []string{"insecure", "secret"} {
		t.Run(mode, func(t *testing.T) {
			c := newCluster(t, 3)
			guards := map[string]*heldOath{}
			key := Security{SecretFile: secretFile(t, security.NewSecret())}
			c.startAll(func(cfg *Config) {
				guards[string(cfg.ID)] = &heldOath{}
				cfg.TProcess, cfg.DataDir = time.Minute, stalltest.Dir(t)
				cfg.Algorithm = quorum.New(quorum.WithTakeover(quorum.TakeoverAttested), quorum.WithGuard(guards[string(cfg.ID)]))
				if mode == "secret" {
					cfg.Security = key
				}
			})
			before := c.agree("3")
			oath := guards["3"].held()
			if want := []string{c.members[0].Addr, c.members[1].Addr}; oath.Token != before || !slices.Equal(oath.Members, want) {
				t.Fatalf("its guard is to attest %v to %v, want %v to %v", oath.Token, oath.Members, before, want)
			}
			if s := statusOf(c.nodes["3"]); s.Takeover != "attested" || s.Unattested != "it is a test's" {
				t.Errorf("status: takeover %q, unattested %q", s.Takeover, s.Unattested)
			}
			within, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for _, id := range []ID{"1", "2"} { // its commitment comes with a heartbeat
				for opens := false; !opens; time.Sleep(time.Millisecond) {
					n := c.nodes[id]
					if err := n.call(within, func() { opens = n.machine.(interface{ Opens([]byte) bool }).Opens(oath.Secret) }); err != nil {
						t.Fatal(err)
					}
				}
			}
			wrong := oath
			wrong.Secret = make([]byte, attest.Size)
			if err := transport.SendOath(within, wrong); err != nil {
				t.Fatal(err)
			}
			for _, id := range []ID{"1", "2"} {
				if s := statusOf(c.nodes[id]); s.Token != before || s.Refused["attest"] != 1 {
					t.Errorf("after a wrong secret member %s follows %v, and has counted %v", id, s.Token, s.Refused)
				}
			}
			c.kill("3")
			began := time.Now()
			if err := transport.SendOath(within, oath); err != nil {
				t.Fatal(err)
			}
			after := c.agree("2")
			if took := time.Since(began); took > 20*time.Second || after.Epoch <= before.Epoch {
				t.Errorf("%v follows %v after %v, and T is over a minute", after, before, took)
			}
			if err := transport.SendOath(within, oath); err != nil { // it comes once more, late
				t.Fatal(err)
			}
			if got := c.agree("2"); got != after || statusOf(c.nodes["1"]).Refused["attest"] != 1 {
				t.Errorf("a late copy: %v leads, and not %v", got, after)
			}
		})
	}
}

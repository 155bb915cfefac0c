package batuta

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/election/ring"
)

// The lead goes to the member that is named when the old leader's work has stopped, and
// back again to one that has given it away.
func TestTransfer(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 4)
		c.startAll(func(cfg *Config) { cfg.NoPreempt = true })
		c.agree("4")
		four, stopped := c.nodes["4"], false
		led := make(chan struct{}, 2)
		go four.Lead(t.Context(), func(ctx context.Context, _ Leadership) error {
			led <- struct{}{}
			<-ctx.Done()
			time.Sleep(time.Second)
			stopped = true
			return nil
		})
		<-led
		if err := four.Transfer(t.Context(), "2"); err != nil {
			t.Fatal(err)
		}
		if v := four.Leader(); v.Token.Leader.ID != "2" || !stopped {
			t.Errorf("%s leads; the work has stopped: %v", v.Token, stopped)
		}
		before := c.agree("2")
		if err := c.nodes["2"].Transfer(t.Context(), "4"); err != nil {
			t.Fatal(err)
		}
		if token := c.agree("4"); token.Epoch != before.Epoch+1 {
			t.Errorf("%s after %s", token, before)
		}
		if err := four.Transfer(t.Context(), "4"); err != nil {
			t.Errorf("to itself: %v", err)
		}
		c.agree("4")
	})
}

// A transfer that cannot last, or that nobody here can make, changes nothing.
func TestATransferIsRefused(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 5)
		c.startAll(func(cfg *Config) { cfg.Observer = cfg.ID == "1" })
		token := c.agree("5")
		for _, test := range []struct {
			at, to ID
			want   error
			says   string
		}{
			{"4", "3", ErrNotLeading, "member 4: not the leader"},
			{"4", "9", ErrNotMember, "member 9"},
			{"5", "9", ErrNotMember, "member 9"},
			{"5", "1", ErrUnfit, "observer"},
			{"5", "3", ErrUnfit, "member 4 outranks it"},
			{"5", "a b", nil, "white space"},
		} {
			err := c.nodes[test.at].Transfer(t.Context(), test.to)
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("from %s to %s: %v", test.at, test.to, err)
			}
		}
		c.kill("4")
		for i := range c.nodes["5"].Events(t.Context()) {
			if i.Kind == EventMember && i.Member == "4" && i.State == StateDown {
				break
			}
		}
		if err := c.nodes["5"].Transfer(t.Context(), "4"); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "down") {
			t.Errorf("to one that is down: %v", err)
		}
		if now := c.agree("5"); now != token {
			t.Errorf("%s after %s", now, token)
		}
		if err := c.nodes["5"].Transfer(t.Context(), "3"); err != nil { // the next in rank now
			t.Error(err)
		}
	})
}

// An heir that dies before it claims is told, with who leads instead.
func TestATransferToOneThatDies(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.startAll(func(cfg *Config) { cfg.NoPreempt = true })
		c.agree("3")
		led := make(chan struct{})
		go c.nodes["3"].Lead(t.Context(), func(ctx context.Context, _ Leadership) error {
			close(led)
			<-ctx.Done()
			c.transports[0].Kill()
			return nil
		})
		<-led
		err := c.nodes["3"].Transfer(t.Context(), "1")
		if err == nil || !strings.Contains(err.Error(), "leads instead of 1") {
			t.Errorf("got %v", err)
		}
	})
}

// The leader steps down, and hands over, at the request of any member, by every algorithm; its work stops first.
func TestAnyMemberHasTheLeaderStepDown(t *testing.T) {
	for name, algorithm := range map[string]func() Algorithm{"bully": func() Algorithm { return bully.New() }, "ring": func() Algorithm { return ring.New() }, "chang-roberts": func() Algorithm { return ring.NewChangRoberts() }} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				c := newVirtualCluster(t, 3)
				c.startAll(func(cfg *Config) { cfg.NoPreempt, cfg.Algorithm = true, algorithm() })
				before := c.agree("3")
				stopped, led := make(chan struct{}, 2), make(chan struct{}, 2) // it leads again at the end
				go c.nodes["3"].Lead(t.Context(), func(ctx context.Context, _ Leadership) error {
					led <- struct{}{}
					<-ctx.Done()
					time.Sleep(time.Second)
					stopped <- struct{}{}
					return nil
				})
				<-led
				one := c.nodes["1"].Election("default")
				if err := one.StepDown(t.Context(), "2"); !errors.Is(err, ErrNotLeading) {
					t.Errorf("a member that does not lead: %v", err)
				}
				if err := one.StepDown(t.Context(), "3"); err != nil {
					t.Fatal(err)
				}
				if len(stopped) == 0 {
					t.Error("it returns before the work has stopped")
				}
				after := c.agree("2")
				if after.Epoch != before.Epoch+1 {
					t.Errorf("%s after %s", after, before)
				}
				if err := one.Transfer(t.Context(), "1"); err != nil {
					t.Fatal(err)
				}
				c.agree("1")
				if err := one.Transfer(t.Context(), "1"); err != nil {
					t.Errorf("to the leader: %v", err)
				}
				if err := c.nodes["3"].Election("default").Transfer(t.Context(), "1"); err != nil {
					t.Errorf("to the leader, asked elsewhere: %v", err)
				}
				if err := one.StepDown(t.Context(), ""); err != nil { // the leader itself
					t.Fatal(err)
				}
				c.agree("3")
			})
		})
	}
}

// What the leader refuses changes nothing, and the error is the same at every member.
func TestTheLeadersRefusalIsPassedOn(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 4)
		c.startAll(func(cfg *Config) { cfg.Observer = cfg.ID == "1" })
		token := c.agree("4")
		for _, at := range []ID{"1", "3", "4"} {
			for to, want := range map[ID]error{"9": ErrNotMember, "1": ErrUnfit, "2": ErrUnfit} {
				if err := c.nodes[at].Election("default").Transfer(t.Context(), to); !errors.Is(err, want) {
					t.Errorf("from %s to %s: %v", at, to, err)
				}
			}
		}
		if err := c.nodes["3"].Election("shard").StepDown(t.Context(), ""); !errors.Is(err, ErrConfig) {
			t.Errorf("of a named election: %v", err)
		}
		if now := c.agree("4"); now != token {
			t.Errorf("%s after %s", now, token)
		}
	})
}

// A leader that is dead answers nothing: whoever asks it returns when its time is over, or when it has been replaced.
func TestALeaderThatDoesNotAnswer(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.startAll()
		c.agree("3")
		c.memory.Cut("1", "3")
		c.memory.Cut("2", "3")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := c.nodes["1"].Election("default").StepDown(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("in vain: %v", err)
		}
		if err := c.nodes["1"].Election("default").StepDown(t.Context(), "3"); err != nil {
			t.Errorf("that is replaced: %v", err)
		}
	})
}

package batuta

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// source is a Secrets function whose answer a test changes.
type source struct {
	mu    sync.Mutex
	lines [][]byte
	err   error
	calls int
}

func (s *source) set(err error, secrets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.lines = err, nil
	for _, line := range secrets {
		s.lines = append(s.lines, []byte(line))
	}
}

func (s *source) give(context.Context) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.lines, s.err
}

func (s *source) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// with has a member take its secrets from s.
func (s *source) with(c *Config) { c.Security.Secrets = s.give }

// Secrets from a function are replaced while the cluster runs, beside a member with a file. An
// error leaves those of before, and is logged once.
func TestSecretsFromAFunctionAreReplacedWithoutAStop(t *testing.T) {
	virtually(t, func(t *testing.T) {
		before, after := security.NewSecret(), security.NewSecret()
		var from source
		from.set(nil, before)
		file := secretFile(t, before)
		var log strings.Builder
		c := newVirtualCluster(t, 3)
		c.start("1", withSecret(file))
		c.start("2", from.with)
		c.start("3", from.with, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		token := c.agree("3")
		stays := func(what string) {
			t.Helper()
			time.Sleep(2 * reloadEvery)
			for id, n := range c.nodes {
				if s := statusOf(n); n.Leader().Token != token || len(s.Lost) > 0 || s.Security != "secret" {
					t.Errorf("%s: member %s has %v, and had %v; it lost %v; its security is %s", what, id, n.Leader().Token, token, s.Lost, s.Security)
				}
			}
			if !c.whole() {
				t.Errorf("%s: the leader does not reach all", what)
			}
		}
		from.set(errors.New("the store is sealed"))
		stays("an error")
		if err := c.nodes["2"].Reload(t.Context()); errors.Is(err, ErrConfig) || !strings.Contains(fmt.Sprint(err), "security: Secrets: the store is sealed") {
			t.Errorf("Reload gives %v", err)
		}
		from.set(nil, before, after)
		writePrivate(t, file, before+"\n"+after+"\n")
		stays("both are accepted")
		from.set(nil, after)
		writePrivate(t, file, after+"\n")
		stays("only the new one is accepted")
		c.nodes["1"].Close()
		stray := c.start("1", withSecret(secretFile(t, before)))
		waitRefused(t, stray, wire.ReasonSecurity)
		time.Sleep(2 * reloadEvery)
		if s := statusOf(stray); s.Token.Defined() || s.Links > 0 {
			t.Errorf("a member with the old secret has leader %v and %d connections", s.Leader, s.Links)
		}
		calls := from.called()
		if err := c.nodes["2"].Reload(t.Context()); err != nil || from.called() != calls+1 {
			t.Errorf("Reload gives %v after %d calls", err, from.called()-calls)
		}
		c.nodes["3"].Close()
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), "the store is sealed") || strings.Contains(log.String(), before) || strings.Contains(log.String(), after) {
			t.Errorf("%d errors in the log, want 1:\n%s", n, log.String())
		}
	})
}

// What a function gives at the start, and one that does not return.
func TestWhatSecretsGivesAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret := security.NewSecret()
		start := func(change func(*Config)) error {
			c := Config{ID: "1", Algorithm: bully.New(), Transport: newNowhere()}
			change(&c)
			n, err := Start(t.Context(), c)
			if err == nil {
				err = n.Close()
			}
			return err
		}
		sealed := errors.New("the store is sealed")
		for _, test := range []struct {
			err     error
			secrets []string
			config  bool
			want    string
		}{
			{nil, []string{secret}, false, "<nil>"},
			{nil, []string{secret + "\n" + secret}, false, "<nil>"}, // as a store has a whole file
			{sealed, nil, false, "security: Secrets: the store is sealed"},
			{nil, nil, true, "security: Secrets: it holds no secret: make one with 'batuta secret new'"},
			{nil, []string{secret, "hunter2"}, true, "security: Secrets: line 2 is not a secret"},
		} {
			var from source
			from.set(test.err, test.secrets...)
			err := start(from.with)
			if !strings.HasPrefix(fmt.Sprint(err), test.want) || errors.Is(err, ErrConfig) != test.config || test.err != nil && !errors.Is(err, test.err) || from.calls != 1 {
				t.Errorf("%d secrets and %v: got %v after %d calls, want %s", len(test.secrets), test.err, err, from.calls, test.want)
			}
		}
		both := start(func(c *Config) { c.Security.SecretFile, c.Security.Secrets = "cluster.key", new(source).give })
		if !errors.Is(both, ErrConfig) || !strings.Contains(fmt.Sprint(both), "SecretFile and Secrets: give one of them") {
			t.Errorf("with both: %v", both)
		}

		release, began := make(chan struct{}), time.Now()
		defer close(release)
		err := start(func(c *Config) {
			c.Security.Secrets = func(context.Context) ([][]byte, error) { <-release; return nil, nil }
		})
		if took := time.Since(began); err == nil || errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "the function has not returned within 5s") || took > 6*time.Second {
			t.Errorf("a function that does not return: %v after %v", err, took)
		}
	})
}

// A function that stops to return delays neither the node nor its end, and is not called again.
func TestSecretsThatDoNotReturnDelayNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		release := make(chan struct{})
		n, err := Start(t.Context(), Config{ID: "1", Algorithm: bully.New(), Transport: newNowhere(), Security: Security{
			Secrets: func(context.Context) ([][]byte, error) {
				if calls.Add(1) > 1 {
					<-release
				}
				return [][]byte{[]byte(security.NewSecret())}, nil
			}}})
		if err != nil {
			t.Fatal(err)
		}
		waitView(t, n, "it leads", View.Defined)
		time.Sleep(time.Minute)
		if !n.IsLeader() || calls.Load() != 2 {
			t.Errorf("it leads: %v, after %d calls", n.IsLeader(), calls.Load())
		}
		ended := time.Now()
		if err := n.Close(); err != nil || time.Since(ended) > time.Second {
			t.Errorf("Close gives %v after %v", err, time.Since(ended))
		}
		close(release)
	})
}

package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
	"github.com/batuta-dev/batuta/engines/kubernetes"
)

// long is for tests in which no lease has to end.
const long = 20 * time.Second

// start has a candidate take part that reaches the server at addr.
func start(t *testing.T, s *enginetest.Kubernetes, addr, name string, c engines.Config) *engines.Election {
	t.Helper()
	return enginetest.Start(t, kubernetes.New(s.Leases(t, addr), name), c)
}

// The one conformance call.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeKubernetes(t)
	enginetest.Conform(t, []string{s.Addr}, s.Fail, func(name string, lines []string) engines.Engine {
		return kubernetes.New(s.Leases(t, lines[0]), strings.NewReplacer("/", "-", "_", "-").Replace(strings.ToLower(name)))
	})
}

// clientGo is a candidate of client-go's, on the same Lease.
type clientGo struct {
	works   chan struct{} // its work has begun
	enough  chan struct{} // closed: its work returns
	stopped chan struct{} // closed when it has ended
	cancel  context.CancelFunc
}

func startClientGo(t *testing.T, s *enginetest.Kubernetes, name, id string) *clientGo {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &clientGo{works: make(chan struct{}, 1), enough: make(chan struct{}), stopped: make(chan struct{}), cancel: cancel}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{LeaseMeta: meta.ObjectMeta{Name: name, Namespace: "default"}, Client: s.Client(t, s.Addr),
			LockConfig: resourcelock.ResourceLockConfig{Identity: id}},
		LeaseDuration: long, RenewDeadline: long * 2 / 3, RetryPeriod: time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				c.works <- struct{}{}
				<-c.enough
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.stopped)
		elector.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-c.enough:
		default:
			close(c.enough)
		}
		<-c.stopped
	})
	return c
}

// sees waits until a candidate sees that leader, under a token above floor.
func sees(t *testing.T, e *engines.Election, id batuta.ID, floor batuta.Token) batuta.Token {
	t.Helper()
	var token batuta.Token
	enginetest.Await(t, "it sees "+string(id)+" lead", func(context.Context) error {
		if token = e.Leader().Token; token.Leader.ID != id || !token.Above(floor) {
			return fmt.Errorf("it sees %q", token)
		}
		return nil
	})
	return token
}

func within[T any](t *testing.T, what string, ch <-chan T) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(enginetest.Patience):
		t.Fatalf("within %v it does not come about that %s", enginetest.Patience, what)
	}
}

// The lead goes to and fro between a candidate of batuta's and one of client-go's on one Lease, and tokens rise.
// client-go's gives the Lease up while its work goes on, so that two work; batuta's keeps it until then.
func TestBesideClientGo(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeKubernetes(t)
	theirs := startClientGo(t, s, "shared", "them_1")
	within(t, "client-go's work begins", theirs.works)

	ours := start(t, s, s.Addr, "shared", engines.Config{ID: "us", Lease: long})
	first := sees(t, ours, "them_1", batuta.Token{})
	working, enough, led := make(chan batuta.Token, 8), make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		led <- ours.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error {
			working <- l.Token
			<-ctx.Done()
			<-enough
			return nil
		})
	}()
	theirs.cancel() // its work has not returned: enough is open
	var second batuta.Token
	select {
	case second = <-working:
	case <-time.After(enginetest.Patience):
		t.Fatal("batuta's candidate does not lead after client-go's has given up")
	}
	t.Logf("client-go's ReleaseOnCancel: the work under %s goes on, and that of %s has begun", first, second)
	if !second.Above(first) {
		t.Errorf("%s follows %s", second, first)
	}

	other := startClientGo(t, s, "shared", "them_2")
	cancel() // ours is to stop; its work goes on
	renewed := s.Lease(t, "shared").ResourceVersion
	for range 3 {
		enginetest.Await(t, "the Lease is renewed while the work goes on", func(context.Context) error {
			if now := s.Lease(t, "shared"); now.ResourceVersion == renewed || *now.Spec.HolderIdentity != "us" {
				return fmt.Errorf("%s holds it, at version %s", *now.Spec.HolderIdentity, now.ResourceVersion)
			}
			return nil
		})
		renewed = s.Lease(t, "shared").ResourceVersion
	}
	select {
	case <-other.works:
		t.Error("client-go's candidate works while batuta's has not stopped")
	default:
	}
	close(enough)
	within(t, "Lead returns", led)
	within(t, "client-go's next candidate works", other.works)
	sees(t, ours, "them_2", second)
}

// A Lease under whose number no epoch can be had is refused; one that somebody relabels is kept.
func TestALeaseThatOthersWriteTo(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeKubernetes(t)
	e := start(t, s, s.Addr, "labelled", engines.Config{ID: "us", StandAlways: true})
	token := sees(t, e, "us", batuta.Token{})
	leases := s.Leases(t, s.Addr)
	for i := range 5 {
		enginetest.Await(t, "the Lease has a label", func(ctx context.Context) error {
			l, err := leases.Get(ctx, "labelled", meta.GetOptions{})
			if err != nil {
				return err
			}
			l.Labels = map[string]string{"turn": fmt.Sprint(i)}
			_, err = leases.Update(ctx, l, meta.UpdateOptions{})
			return err
		})
	}
	before := s.Lease(t, "labelled").Spec.RenewTime
	enginetest.Await(t, "it is renewed", func(context.Context) error {
		if now := s.Lease(t, "labelled"); now.Spec.RenewTime.Equal(before) || now.Labels["turn"] != "4" {
			return fmt.Errorf("it is %v", now)
		}
		return nil
	})
	if now := e.Leader().Token; now != token && now.Epoch != 0 {
		t.Logf("the lead was lost meanwhile, by a machine that stood still: %s, then %s", token, now)
	}
}

// A holder without a duration, or with one that no candidate has, is refused. client-go would replace the first at once.
func TestDamage(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeKubernetes(t)
	leases := s.Leases(t, s.Addr)
	holder, days := "them", int32(2*24*60*60)
	for name, duration := range map[string]*int32{"without": nil, "long": &days} {
		lease := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: coordination.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: duration}}
		if _, err := leases.Create(t.Context(), lease, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		enginetest.Refuses(t, kubernetes.New(s.Leases(t, s.Addr), name), "Lease "+name)
	}
}

// A client without credentials or rights receives which ones a candidate needs, from a check and from a call. A check writes
// nothing.
func TestRights(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeKubernetes(t)
	refused := func(token, name, reason string) {
		t.Helper()
		e := kubernetes.New(s.As(token).Leases(t, s.Addr), name)
		seen, err := e.Look(t.Context())
		if err == nil {
			_, err = e.Claim(t.Context(), seen, engines.Record{ID: "1", Process: "p", Lasts: long})
		}
		for _, err := range []error{e.Check(t.Context()), err} {
			if !errors.Is(err, engines.ErrDenied) || !strings.Contains(err.Error(), reason) {
				t.Errorf("token %s, Lease %s: %v; want a refusal with %q", token, name, err, reason)
			}
		}
	}
	full := func(name string) *kubernetes.Engine { return kubernetes.New(s.Leases(t, s.Addr), name) }
	allowed := func(name string) {
		t.Helper()
		if err := full(name).Check(t.Context()); err != nil {
			t.Errorf("Lease %s: %v", name, err)
		}
	}
	allowed("held") // it is missing
	if seen, err := full("held").Look(t.Context()); err != nil || seen.Version != "missing" {
		t.Errorf("after a check the Lease is %+v, %v", seen, err)
	}
	e := start(t, s, s.Addr, "held", engines.Config{ID: "us", StandAlways: true, Lease: long})
	token := sees(t, e, "us", batuta.Token{})
	allowed("held")
	const needs = "a candidate needs the verbs get, create, update and watch"
	for _, name := range []string{"held", "none"} {
		refused("unknown", name, "Kubernetes refuses the credentials")
		refused(enginetest.Stranger, name, needs)
		if s.CA == "" {
			refused(enginetest.Reader, name, needs)
		}
	}
	if now := e.Leader().Token; now != token {
		t.Errorf("%s leads, and %s before the checks", now, token)
	}
}

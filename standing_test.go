package batuta

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
)

// fragile is a store that refuses, or hangs, as the test wants.
type fragile struct {
	mu    sync.Mutex
	err   error
	hangs chan struct{} // until it is closed; nil: not at all
}

func (f *fragile) Load() (election.State, error) { return election.State{}, nil }

func (f *fragile) Save(election.State) error {
	f.mu.Lock()
	err, hangs := f.err, f.hangs
	f.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	return err
}

func (f *fragile) set(err error, hangs chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.hangs = err, hangs
}

// onFragile runs f with a member that leads itself and whose disk may fail. It gives
// the log when it has been written.
func onFragile(t *testing.T, f func(t *testing.T, n *Node, store *fragile)) (log string) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		store := &fragile{}
		n, err := Start(t.Context(), Config{ID: "1", Algorithm: bully.New(), Transport: newNowhere(), Store: store,
			Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		waitView(t, n, "it leads", View.Defined)
		f(t, n, store)
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return out.String()
}

func TestAFailingDiskIsSeen(t *testing.T) {
	log := onFragile(t, func(t *testing.T, n *Node, store *fragile) {
		if s := statusOf(n); s.Standing != StandingEligible || s.DiskError != "" || s.SavesFailed != 0 {
			t.Errorf("at first: %q, %q, %d saves failed", s.Standing, s.DiskError, s.SavesFailed)
		}
		store.set(errors.New("no room on it"), nil)
		if err := n.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // it stands again, claims, and tries to save again and again
		if s := statusOf(n); s.Standing != StandingUnsaved || s.DiskError != "no room on it" || s.SavesFailed < 2 {
			t.Errorf("failing: %q, %q, %d saves failed", s.Standing, s.DiskError, s.SavesFailed)
		}
		store.set(nil, nil)
		waitView(t, n, "it leads again", View.Defined)
		if s := statusOf(n); s.Standing != StandingEligible || s.DiskError != "" {
			t.Errorf("mended: %q, %q", s.Standing, s.DiskError)
		}
	})
	for _, want := range []string{`level=WARN msg="the state cannot be saved" id=1`, `error="no room on it"`, "level=WARN msg=\"the state can be saved again\"", "was=eligible is=resigned", "was=unsaved is=eligible"} {
		if n := strings.Count(log, want); n != 1 {
			t.Errorf("the log says %d times, not once: %s\n%s", n, want, log)
		}
	}
}

func TestADiskThatHangsIsSeen(t *testing.T) {
	onFragile(t, func(t *testing.T, n *Node, store *fragile) {
		hangs := make(chan struct{})
		store.set(nil, hangs)
		if err := n.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // it stands again, and claims
		if s := statusOf(n); s.Standing != StandingUnsaved || !strings.HasPrefix(s.DiskError, "a save has not ended in ") {
			t.Errorf("hanging: %q, the disk's error is %q", s.Standing, s.DiskError)
		}
		store.set(nil, nil)
		close(hangs)
		waitView(t, n, "it leads again", View.Defined)
		if s := statusOf(n); s.DiskError != "" {
			t.Errorf("the disk's error is %q", s.DiskError)
		}
	})
}

// A save that hangs is left behind, and closes the store when it ends after all.
func TestANodeEndsWhileItsDiskHangs(t *testing.T) {
	store := &hanging{saves: make(chan struct{}, 10), closed: make(chan struct{})}
	var out bytes.Buffer
	n, err := Start(t.Context(), Config{ID: "1", Algorithm: bully.New(), Listen: "127.0.0.1:0", Store: store,
		Logger: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	waitView(t, n, "it leads", View.Defined)
	hangs := make(chan struct{})
	store.set(nil, hangs)
	for len(store.saves) > 0 {
		<-store.saves
	}
	if err := errors.Join(n.Resign(t.Context()), n.Campaign(t.Context())); err != nil {
		t.Fatal(err)
	}
	<-store.saves // of its claim
	ended := make(chan error, 1)
	go func() { ended <- n.Close() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Close has not returned in a minute while a save hangs")
	}
	if s := statusOf(n); s.DiskError == "" {
		t.Error("its last status says nothing of the disk")
	}
	if log := out.String(); !strings.Contains(log, "the node ends while a save hangs") {
		t.Errorf("the log says nothing of the save that is left behind:\n%s", log)
	}
	select {
	case <-store.closed:
		t.Error("the store is closed while a save still writes to it")
	default:
	}
	close(hangs)
	<-store.closed
}

// hanging is a fragile store that reports when a save begins, and when it is closed.
type hanging struct {
	fragile
	saves, closed chan struct{}
}

func (h *hanging) Save(s election.State) error {
	h.saves <- struct{}{}
	return h.fragile.Save(s)
}

func (h *hanging) Close() error {
	close(h.closed)
	return nil
}

func TestStandings(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		stands := func(want Standing) {
			t.Helper()
			if s := statusOf(n); s.Standing != want {
				t.Errorf("it is %q, want %q", s.Standing, want)
			}
		}
		stands(StandingEligible)
		slow, over := make(chan struct{}), make(chan error)
		go func() {
			over <- n.Lead(t.Context(), func(ctx context.Context, _ Leadership) error {
				<-ctx.Done()
				<-slow
				return errors.New("enough")
			})
		}()
		synctest.Wait()
		n.Resign(t.Context())
		stands(StandingDraining)
		close(slow)
		synctest.Wait()
		stands(StandingResigned)
		n.SetHealth(t.Context(), errors.New("no database"))
		stands(StandingUnhealthy)
		n.SetHealth(t.Context(), nil)
		n.Campaign(t.Context())
		stands(StandingEligible)
		n.Close()
		<-over
	})
}

// Every reason that the Machine has is told by a name.
func TestEveryStandingHasAName(t *testing.T) {
	for _, a := range []election.Eligibility{election.Eligible, election.IneligibleResigned, election.StandsNext, election.IneligibleWorking, election.IneligibleUnsaved, election.IneligibleObserver,
		election.IneligibleUnhealthy, election.LastResort, election.IneligibleClosing, election.IneligibleGone, election.IneligibleJoining, election.IneligibleUnfounded, election.IneligibleFew, election.IneligiblePaused, election.IneligibleRefused} {
		if standings[a] == "" {
			t.Errorf("%q has none", a)
		}
	}
}

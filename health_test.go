package batuta

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/election/bully"
)

// A check that panics ends the process, and the panic names the member.
func TestAPanicOfACheckNamesTheMember(t *testing.T) {
	c := checkup{Health: Health{Check: func(context.Context) error { panic("no pool") }}, id: "3"}
	defer func() {
		if got := fmt.Sprint(recover()); got != "batuta: Health.Check of member 3 panics: no pool" {
			t.Errorf("the panic is %q", got)
		}
	}()
	c.named(t.Context())
}

// A member is unhealthy after Fall checks in a row that fail, and healthy after Rise that succeed.
func TestHealthHasHysteresis(t *testing.T) {
	no := errors.New("no database")
	for _, test := range []struct {
		rise, fall int
		checks     []error
		want       string // u: unhealthy is reported, h: healthy
	}{
		{1, 1, []error{nil, no, nil, no, no}, "huhu"},
		{1, 3, []error{nil, no, no, nil, no, no, nil, no, no, no, no}, "hu"},
		{2, 1, []error{no, nil, no, nil, nil, no, nil, nil}, "uuuuhuuh"}, // how many have succeeded is a reason too
		{3, 2, []error{nil, nil, nil, no, nil, no, no}, "uuhu"},
	} {
		got := ""
		c := checkup{Health: Health{Rise: test.rise, Fall: test.fall}.withDefaults(), log: slog.New(slog.DiscardHandler),
			report: func(_ context.Context, err error) error {
				got += map[bool]string{true: "h", false: "u"}[err == nil]
				return nil
			}}
		for _, err := range test.checks {
			c.found(t.Context(), err)
		}
		if got != test.want {
			t.Errorf("rise %d, fall %d: reported %s, want %s", test.rise, test.fall, got, test.want)
		}
	}
}

// The times of a node's checks: Every after each, Timeout for each. One that never returns fails, holds up neither the
// node nor its end, and no other begins.
func TestHealthTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var began []time.Duration
		start, release := time.Now(), make(chan struct{})
		n, err := Start(t.Context(), Config{ID: "1", Algorithm: bully.New(), Transport: newNowhere(), Health: Health{Every: 10 * time.Second, Timeout: 3 * time.Second, Fall: 2,
			Check: func(ctx context.Context) error {
				mu.Lock()
				began = append(began, time.Since(start))
				n := len(began)
				mu.Unlock()
				switch n {
				case 1:
					return nil
				case 2:
					<-ctx.Done()
					return ctx.Err()
				}
				<-release
				return nil
			}}})
		if err != nil {
			t.Fatal(err)
		}
		waitView(t, n, "it leads", View.Defined)
		time.Sleep(20 * time.Second)
		if !n.IsLeader() {
			t.Error("one check that fails has cost it the lead")
		}
		for v := range n.Watch(t.Context()) {
			if !v.Defined() {
				break
			}
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if want := []time.Duration{0, 10 * time.Second, 23 * time.Second}; !slices.Equal(began, want) {
			t.Errorf("checks began at %v, want %v", began, want)
		}
		if s := statusOf(n); s.Standing != StandingUnhealthy || !strings.Contains(s.StandingWhy, "has not returned within 3s") {
			t.Errorf("it is %s: %s", s.Standing, s.StandingWhy)
		}
		ended := time.Now()
		if err := n.Close(); err != nil || time.Since(ended) > time.Second {
			t.Errorf("Close gives %v after %v", err, time.Since(ended))
		}
		close(release)
	})
}

func TestWhatIsWrongWithHealth(t *testing.T) {
	check := func(context.Context) error { return nil }
	for want, h := range map[string]Health{
		"without Check":         {Rise: 1},
		"Health.Every -1s":      {Check: check, Every: -time.Second},
		"Timeout 1ns":           {Check: check, Timeout: 1},
		"Health.Rise -1":        {Check: check, Rise: -1},
		"Health.Rise 1, Fall -": {Check: check, Fall: -2},
	} {
		if err := (Config{Algorithm: bully.New(), Health: h}).Validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := (Config{Algorithm: bully.New(), Health: Health{Check: check}}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestSetHealthGivesTheReason(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		if err := n.SetHealth(t.Context(), errors.New("no database")); err != nil {
			t.Fatal(err)
		}
		if s := statusOf(n); n.IsLeader() || s.Standing != StandingUnhealthy || s.StandingWhy != "no database" {
			t.Errorf("it is %s: %s", s.Standing, s.StandingWhy)
		}
		if err := n.SetHealth(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		waitView(t, n, "it leads again", View.Defined)
	})
}

// A member is unhealthy while its check fails, also when the service reports that it is fit, and the other
// way round: both have to find it fit.
func TestTheCheckAndTheServiceBothFindItFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		n, err := Start(t.Context(), Config{ID: "1", Algorithm: bully.New(), Transport: newNowhere(), Health: Health{Every: time.Second,
			Check: func(context.Context) error {
				if fails.Load() {
					return errors.New("no database")
				}
				return nil
			}}})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		waitView(t, n, "it leads", View.Defined)
		say := func(err error) {
			t.Helper()
			if err := n.SetHealth(t.Context(), err); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		for _, step := range []struct {
			check bool // fails
			said  error
			why   string
		}{
			{false, errors.New("the command failed"), "the command failed"},
			{true, errors.New("the command failed"), "no database"},
			{true, nil, "no database"},
			{false, nil, ""},
			{true, nil, "no database"},
			{true, errors.New("the command failed"), "no database"},
			{false, errors.New("the command failed"), "the command failed"},
			{false, nil, ""},
		} {
			fails.Store(step.check)
			say(step.said)
			if s := statusOf(n); (s.Standing == StandingUnhealthy) != (step.why != "") || s.StandingWhy != step.why || n.IsLeader() != (step.why == "") {
				t.Errorf("%+v: it is %s, %q; it leads: %v", step, s.Standing, s.StandingWhy, n.IsLeader())
			}
		}
	})
}

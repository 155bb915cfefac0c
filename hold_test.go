package batuta_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

func TestHoldOfAnElectionWithoutAName(t *testing.T) {
	if _, ok := batuta.LeadershipFrom(t.Context()); ok {
		t.Error("a context that no leadership has made has one")
	}
	c := batutatest.New(t, 1)
	if _, _, err := c.Start("1").Election("").Hold(t.Context()); !errors.Is(err, batuta.ErrConfig) {
		t.Errorf("Hold of an election without a name: %v", err)
	}
}

// The view of a named election has what its leader publishes, also what it publishes later.
func TestMetaOfTheLeaderOfANamedElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 2, func(cfg *batuta.Config) { cfg.Meta = map[string]string{"url": "first"} })
		c.StartAll()
		h, err := batuta.Acquire(t.Context(), c.Node("1").Election("shard"))
		if err != nil {
			t.Fatal(err)
		}
		defer h.Release()
		seen := c.Node("2").Election("shard")
		await := func(url string) {
			t.Helper()
			for late := time.Now().Add(time.Minute); seen.Leader().Meta["url"] != url; time.Sleep(time.Millisecond) {
				if time.Now().After(late) {
					t.Fatalf("the view is %+v, and its leader publishes %q", seen.Leader(), url)
				}
			}
		}
		await("first")
		if err := c.Node("1").SetMeta(t.Context(), map[string]string{"url": "second"}); err != nil {
			t.Fatal(err)
		}
		await("second")
	})
}

func BenchmarkHold(b *testing.B) {
	c := batutatest.New(b, 1)
	n := c.Start("1")
	c.Agree("1")
	for b.Loop() {
		_, release, err := n.Hold(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		release()
	}
}

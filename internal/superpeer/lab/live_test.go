package lab_test

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/internal/superpeer/lab"
	"github.com/batuta-dev/batuta/internal/superpeer/live"
)

// TestALiveOverlayComesCloseToKMedoids plays in virtual time the overlay of
// TestALiveOverlayKeepsItsPromises of package live, with the same crashes.
func TestALiveOverlayComesCloseToKMedoids(t *testing.T) {
	f, err := os.Open("../live/testdata/rtt20.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := lab.ReadMatrix(f)
	if err != nil {
		t.Fatal(err)
	}
	const nodes, rounds, fraction, capacity, seed = 40, 90, 0.05, 40, 1
	var r *live.Report
	synctest.Test(t, func(t *testing.T) {
		r, err = live.Run(t.Context(), live.Options{
			RTT: m, Nodes: nodes, Fraction: fraction, Capacity: capacity, Rounds: rounds, Seed: seed, Quick: true,
			Kills: []live.Kill{{At: rounds - 60, Supers: 1}, {At: rounds - 45, Share: 0.1}},
		})
		time.Sleep(time.Minute) // for memberlist to notice
	})
	if err != nil {
		t.Fatal(err)
	}
	best, err := lab.KMedoidsMean(lab.Options{RTT: m.Spread(nodes, seed), Fraction: fraction, Capacity: capacity, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the mean round trip is %.1f ms, %.2f × k-medoids", r.Mean, r.Mean/best)
	if r.Mean > 1.7*best {
		t.Errorf("the mean round trip is %.1f ms, want at most 1.7 × k-medoids, which has %.1f", r.Mean, best)
	}
}

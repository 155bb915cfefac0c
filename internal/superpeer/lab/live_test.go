package lab_test

import (
	"math"
	"os"
	"testing"

	"github.com/batuta-dev/batuta/internal/superpeer/lab"
)

// TestKMedoidsOfTheLiveOverlay computes the figure with which TestALiveOverlayComesCloseToKMedoids
// of the command's package live compares an overlay of real members.
func TestKMedoidsOfTheLiveOverlay(t *testing.T) {
	f, err := os.Open("../../../cmd/batuta/internal/live/testdata/rtt20.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := lab.ReadMatrix(f)
	if err != nil {
		t.Fatal(err)
	}
	const nodes, fraction, capacity, seed, want = 40, 0.05, 40, 1, 34.683
	mean, err := lab.KMedoidsMean(lab.Options{RTT: m.Spread(nodes, seed), Fraction: fraction, Capacity: capacity, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(mean-want) > 0.001 {
		t.Errorf("k-medoids has a mean round trip of %.3f ms, want %.3f", mean, want)
	}
}

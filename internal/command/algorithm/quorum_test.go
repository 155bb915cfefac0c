//go:build !noquorum

package algorithm

import "testing"

// The flag of how Bully asks is given with every algorithm; quorum's own option is another.
func TestAQuorumTakesBullysProbeForNothing(t *testing.T) {
	for _, option := range []string{"", "descending", "all", "lease", "refused"} {
		if _, err := New("quorum", option); err != nil {
			t.Errorf("%q: %v", option, err)
		}
	}
	if _, err := New("quorum", "never"); err == nil {
		t.Error("an option is taken that there is not")
	}
}

package batuta

import (
	"testing"
)

// A Leadership that no election has given has no fence.
func TestAMadeUpLeadershipHasNoFence(t *testing.T) {
	if epoch, fences := (Leadership{Token: Token{Epoch: 7}}).Fence(); fences || epoch != 0 {
		t.Errorf("its fence is %d, %v", epoch, fences)
	}
}

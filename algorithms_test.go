package batuta_test

import (
	"testing"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/testkit/nodetest"
)

func newBully() batuta.Algorithm { return bully.New() }

// The tests of package nodetest with Bully. Directory quorum/nodes has them with a quorum.

func TestAcquire(t *testing.T)                      { nodetest.Acquire(t, newBully) }
func TestAcquireLost(t *testing.T)                  { nodetest.AcquireLost(t, newBully) }
func TestAcquireOfOneThatCloses(t *testing.T)       { nodetest.AcquireOfOneThatCloses(t, newBully) }
func TestAcquireWithAnEndedContext(t *testing.T)    { nodetest.AcquireWithAnEndedContext(t, newBully) }
func TestHold(t *testing.T)                         { nodetest.Hold(t, newBully) }
func TestHoldOfOneThatCloses(t *testing.T)          { nodetest.HoldOfOneThatCloses(t, newBully) }
func TestHoldEndsWithItsWork(t *testing.T)          { nodetest.HoldEndsWithItsWork(t, newBully) }
func TestTryAcquire(t *testing.T)                   { nodetest.TryAcquire(t, newBully) }
func TestAFenceIsThereWhereItIsOne(t *testing.T)    { nodetest.Fence(t, newBully, false) }
func TestLease(t *testing.T)                        { nodetest.Lease(t, newBully, batuta.GuaranteeBestEffort, false) }
func TestWhoHasNoWorkLeadsNoMore(t *testing.T)      { nodetest.NoWork(t, newBully) }
func TestAPauseWhileLeadershipMoves(t *testing.T)   { nodetest.Pause(t, newBully) }
func TestMeta(t *testing.T)                         { nodetest.Meta(t, newBully) }
func TestMembersAreAskedForTheirViews(t *testing.T) { nodetest.Views(t, newBully) }
func TestStates(t *testing.T)                       { nodetest.States(t, newBully) }
func TestMembersMoveWithTheirDisks(t *testing.T)    { nodetest.Move(t, newBully, true) }

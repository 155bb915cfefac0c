package batuta

import (
	"testing"
	"testing/synctest"

	"github.com/batuta-dev/batuta/internal/testkit/memnet"
)

// virtually runs f in virtual time, where no machine is ever too slow: what f
// starts talks over a memory of its own ([newVirtualCluster]). Time passes when
// nobody has anything left to do, so f must wait, not spin.
func virtually(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// oneWay is how long a trip takes in a memory that says nothing else.
const oneWay = memnet.OneWay

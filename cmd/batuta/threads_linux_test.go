package main

import (
	"testing"

	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/internal/work/hooks"
)

// A process that ends with the thread that has started it outlives what this package's tests do on threads
// of their own: an agent that one test has started died with a thread that another had ended.
func TestTheTestsEndNoThread(t *testing.T) {
	l := newLAN(t, 1)
	dial := l.dialer(1)
	stalltest.EndsNoThread(t, hooks.ChildAttributes(), func() {
		if _, err := dial(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
			t.Error("somebody answers where nobody listens")
		}
		t.Run("cluster", func(t *testing.T) {
			if c, err := newCluster(1); err != nil {
				t.Error(err)
			} else {
				c.close()
			}
		})
	})
}

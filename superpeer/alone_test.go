package superpeer

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/superpeer/superpeertest"
)

// A node that reaches no other one logs that once, with the cause, while it tries again.
func TestANodeThatFindsNoOtherReportsIt(t *testing.T) {
	net := superpeertest.NewNetwork(func(int, int) time.Duration { return time.Millisecond })
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 20*minRound)
	defer cancel()
	_, err := Join(ctx, Config{Transport: net.Transport(0), Join: []string{superpeertest.Address(7)}, Round: minRound, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err == nil || strings.Count(log.String(), "no node to join through answers") != 1 {
		t.Errorf("%v, and the log has %q", err, log.String())
	}
}

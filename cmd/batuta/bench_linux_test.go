package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// A member that resigned and leads again at once is counted: it is asked to campaign as soon as another leads.
func TestBenchSeesAResignedMemberReturn(t *testing.T) {
	t.Parallel()
	c, _ := startCluster(t, 3)
	var out, progress bytes.Buffer
	b := &failoverBench{fault: "resign", benchCluster: benchCluster{Env: cli.Env{Stdout: &out, Stderr: &progress},
		nodes: 3, rounds: 1, algorithm: "bully", profile: "lan", json: true, cluster: c}}
	over := make(chan struct{})
	go func(highest string) {
		defer close(over)
		client, err := api.NewClient(highest, api.Access{})
		for follows := ""; err == nil && follows != "2"; time.Sleep(time.Millisecond) {
			var status struct{ Leader *string }
			if err = client.Get(t.Context(), "/v1/status", &status); err == nil && status.Leader != nil {
				follows = *status.Leader
			}
		}
		if err == nil {
			err = client.Call(t.Context(), "POST", "/v1/campaign", nil, nil)
		}
		if err != nil {
			t.Error(err)
		}
	}(c.members[2].http)
	err := b.measure(t.Context())
	<-over
	var f failoverFigures
	if broken := json.Unmarshal(out.Bytes(), &f); broken != nil {
		t.Fatalf("%v, and no figures: %v in %q", err, broken, out.String())
	}
	if f.Returned == nil || *f.Returned != 1 || f.ExtraChanges == nil || *f.ExtraChanges < 1 {
		t.Errorf("3 resigned and led again, and the figures are %s", out.String())
	}
	if cli.CodeOf(err) != cli.Failed || !strings.Contains(err.Error(), "1 of 1 members") || !strings.Contains(progress.String(), "led in turn: 2, 3") {
		t.Errorf("3 resigned and led again, and the command ends with %v after\n%s", err, progress.String())
	}
}

// The highest member that starts again takes over, and is measured from its event ready.
func TestBenchMeasuresAReturn(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	b := &failoverBench{fault: "return", benchCluster: benchCluster{Env: cli.Env{Stdout: &out, Stderr: &progress},
		nodes: 3, rounds: 2, algorithm: "bully", profile: "lan", json: true, dataDir: t.TempDir()}}
	if err := b.run(t.Context()); err != nil {
		t.Fatalf("%v after\n%s", err, progress.String())
	}
	var f failoverFigures
	if err := json.Unmarshal(out.Bytes(), &f); err != nil || f.First.Median <= 0 || f.All.Median < f.First.Median || f.Returned != nil {
		t.Errorf("3 came back twice, and the figures are %s (%v)", out.String(), err)
	}
	if back := strings.Count(progress.String(), "return of 3: first claim after"); back != 2 || strings.Count(progress.String(), "all agree on 3") != 2 {
		t.Errorf("3 came back twice, and the progress is\n%s", progress.String())
	}
}

// unread is a pipe without a reader.
type unread struct{ writes int }

func (u *unread) Write([]byte) (int, error) {
	u.writes++
	return 0, syscall.EPIPE
}

// A run of which the progress is read no longer ends. SIGPIPE does not end it: see [newCluster].
func TestBenchEndsWhenItsProgressIsUnread(t *testing.T) {
	t.Parallel()
	var progress unread
	b := &failoverBench{fault: "crash", benchCluster: benchCluster{Env: cli.Env{Stdout: &bytes.Buffer{}, Stderr: &progress},
		nodes: 2, rounds: 3, algorithm: "bully", profile: "lan", json: true, dataDir: t.TempDir()}}
	if err := b.run(t.Context()); !errors.Is(err, syscall.EPIPE) || progress.writes != 1 {
		t.Errorf("it ends with %v after %d lines", err, progress.writes)
	}
}

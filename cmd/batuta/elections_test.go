package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/batuta-dev/batuta/internal/api"
)

// electionWithin is how long a script waits for a named election: far longer than it takes.
const electionWithin = 60 * time.Second

// scriptLeads is "leads ADDRESS ELECTION ID": the agent whose API is there must come to say
// that ID leads that election.
func scriptLeads(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: leads ADDRESS ELECTION ID")
	}
	again(ts, args[0], func(ctx context.Context, c *api.Client) error {
		var l api.Leader
		err := c.Get(ctx, "/v1/leader?election="+url.QueryEscape(args[1]), &l)
		if err == nil && l.Leader != args[2] {
			return &api.AnswerError{Message: l.Leader + " leads"}
		}
		return err
	})
}

// scriptHanded is "handed ADDRESS ELECTION ID": that election is handed over to ID, as soon
// as that one stands for it.
func scriptHanded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: handed ADDRESS ELECTION ID")
	}
	again(ts, args[0], func(ctx context.Context, c *api.Client) error {
		return c.Call(ctx, "POST", "/v1/transfer", api.Heir{ID: args[2], Election: args[1]}, nil)
	})
}

// again asks an agent until what it answers is no error.
func again(ts *testscript.TestScript, addr string, ask func(context.Context, *api.Client) error) {
	client, err := api.NewClient(addr, api.Access{})
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), electionWithin)
	defer cancel()
	for {
		if err = ask(ctx, client); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("waited %v in vain for the agent at %s: %v", electionWithin, addr, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// scriptUnknown is "unknown ADDRESS ELECTION": the agent whose API is there must come to know
// no election of that name.
func scriptUnknown(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: unknown ADDRESS ELECTION")
	}
	again(ts, args[0], func(ctx context.Context, c *api.Client) error {
		var l api.Leader
		err := c.Get(ctx, "/v1/leader?election="+url.QueryEscape(args[1]), &l)
		if answer, ok := errors.AsType[*api.AnswerError](err); ok && answer.Code == http.StatusNotFound {
			return nil
		}
		return cmp.Or(err, errors.New(l.Leader+" leads"))
	})
}

// scriptAppears is "appears FILE": there must come to be such a file.
func scriptAppears(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: appears FILE")
	}
	for late := time.After(electionWithin); ; {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		select {
		case <-late:
			ts.Fatalf("waited %v in vain for %s", electionWithin, args[0])
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// scriptHUP is "hup NAME": the agent that "start NAME" has started gets SIGHUP.
func scriptHUP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || agents(ts)[args[0]] == nil {
		ts.Fatalf("usage: hup NAME")
	}
	ts.Check(agents(ts)[args[0]].cmd.Process.Signal(syscall.SIGHUP))
}

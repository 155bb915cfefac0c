package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/batuta-dev/batuta/internal/agent"
)

// electionWithin is how long a script waits for a named election: far longer than it takes.
const electionWithin = 60 * time.Second

// scriptLeads is "leads ADDRESS ELECTION ID": the agent whose API is there must come to say
// that ID leads that election.
func scriptLeads(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: leads ADDRESS ELECTION ID")
	}
	again(ts, args[0], func(ctx context.Context, c *agent.Client) error {
		var l agent.Leader
		err := c.Get(ctx, "/v1/leader?election="+args[1], &l)
		if err == nil && l.Leader != args[2] {
			return &agent.AnswerError{Message: l.Leader + " leads"}
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
	again(ts, args[0], func(ctx context.Context, c *agent.Client) error {
		var raw json.RawMessage
		return c.Transfer(ctx, agent.Heir{ID: args[2], Election: args[1]}, &raw)
	})
}

// again asks an agent until what it answers is no error.
func again(ts *testscript.TestScript, addr string, ask func(context.Context, *agent.Client) error) {
	client, err := agent.NewClient(addr, agent.Access{})
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

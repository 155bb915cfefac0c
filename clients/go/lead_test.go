package batutaclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	batutaclient "github.com/batuta-dev/batuta/clients/go"
)

// answer is a body of PUT …/candidacy, given after a delay.
type answer struct {
	delay   time.Duration
	State   string `json:"state"`
	Token   string `json:"token"`
	Cause   string `json:"cause"`
	ValidMS int    `json:"valid_ms"`
}

// script is an agent that gives those answers in turn, the last again and again.
func script(t *testing.T, answers ...answer) *batutaclient.Agent {
	t.Helper()
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			w.Write([]byte("{}"))
			return
		}
		io.Copy(io.Discard, r.Body) // then the server sees the client leave
		mu.Lock()
		a := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		mu.Unlock()
		select {
		case <-time.After(a.delay):
		case <-r.Context().Done():
			return
		}
		json.NewEncoder(w).Encode(struct {
			answer
			Candidacy string `json:"candidacy"`
		}{a, "mine"})
	}))
	t.Cleanup(s.Close)
	return batutaclient.New(s.URL)
}

var leading = answer{State: "leading", Token: "1:1", ValidMS: 2000}

// Work that has returned while it led is not run again, also if the agent's next answer is a loss.
func TestWorkThatReturnedIsOver(t *testing.T) {
	t.Parallel()
	agent := script(t, answer{State: "leading", Token: "1:1", ValidMS: 20_000}, answer{State: "lost", Token: "1:1", Cause: "stalled", delay: time.Second}, answer{State: "leading", Token: "2:1", ValidMS: 2000})
	runs := 0
	err := agent.Lead(t.Context(), "payroll", func(context.Context, *batutaclient.Leadership) error {
		runs++
		time.Sleep(600 * time.Millisecond) // until the second question is on its way
		return nil
	}, batutaclient.Options{})
	if err != nil || runs != 1 {
		t.Errorf("the work ran %d times, %v", runs, err)
	}
}

// If an answer does not come, there is time to ask again before the leadership is over.
func TestACallWithoutAnAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	valid := answer{State: "leading", Token: "1:1", ValidMS: 4000}
	agent := script(t, valid, answer{delay: time.Minute}, valid)
	err := agent.Lead(t.Context(), "payroll", func(ctx context.Context, l *batutaclient.Leadership) error {
		select {
		case <-ctx.Done():
			t.Error(context.Cause(ctx))
		case <-time.After(4 * time.Second): // no answer is valid for so long
		}
		return nil
	}, batutaclient.Options{})
	if err != nil {
		t.Error(err)
	}
}

// Work does not begin on an answer whose time has passed.
func TestALateAnswerBeginsNothing(t *testing.T) {
	t.Parallel()
	late := answer{State: "leading", Token: "1:1", ValidMS: 300, delay: time.Second}
	asked := time.Now()
	err := script(t, late, leading).Lead(t.Context(), "payroll", func(ctx context.Context, l *batutaclient.Leadership) error {
		if l.Left() <= 0 {
			t.Errorf("the work begins %v after the end", -l.Left())
		}
		return ctx.Err()
	}, batutaclient.Options{})
	if err != nil || time.Since(asked) < time.Second {
		t.Errorf("after %v: %v", time.Since(asked), err)
	}
}

// An error after a loss does not end the candidacy; one of a work that leads does.
func TestAnErrorAfterALossIsIgnored(t *testing.T) {
	t.Parallel()
	agent := script(t, leading, answer{State: "lost", Token: "1:1", Cause: "resigned"}, answer{State: "leading", Token: "2:1", ValidMS: 2000})
	mine := errors.New("mine")
	var tokens []string
	err := agent.Lead(t.Context(), "payroll", func(ctx context.Context, l *batutaclient.Leadership) error {
		tokens = append(tokens, l.Token)
		if len(tokens) > 1 {
			return mine
		}
		<-ctx.Done()
		return ctx.Err()
	}, batutaclient.Options{})
	if !errors.Is(err, mine) || len(tokens) != 2 {
		t.Errorf("Lead returns %v after %v", err, tokens)
	}
}

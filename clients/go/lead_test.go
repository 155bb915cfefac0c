package batutaclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
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

// script is an agent that gives those answers in turn, the last again and again. It has no network: a test that runs in a
// bubble has time of its own, which no stall of the machine takes.
type script struct {
	mu      sync.Mutex
	answers []answer
}

func (s *script) next() answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return a
}

// RoundTrip implements [http.RoundTripper].
func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.Method != http.MethodPut {
		w.WriteString("{}")
		return w.Result(), nil
	}
	a := s.next()
	select {
	case <-time.After(a.delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	json.NewEncoder(w).Encode(struct {
		answer
		Candidacy string `json:"candidacy"`
	}{a, "mine"})
	return w.Result(), nil
}

// scripted makes the agent that gives those answers.
func scripted(answers ...answer) *batutaclient.Agent {
	return batutaclient.New("script://agent", func(_ *batutaclient.Agent, t *http.Transport) {
		t.RegisterProtocol("script", &script{answers: answers})
	})
}

var leading = answer{State: "leading", Token: "1:1", ValidMS: 2000}

// Work that has returned while it led is not run again, also if the agent's next answer is a loss.
func TestWorkThatReturnedIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := scripted(answer{State: "leading", Token: "1:1", ValidMS: 20_000}, answer{State: "lost", Token: "1:1", Cause: "stalled", delay: time.Second}, answer{State: "leading", Token: "2:1", ValidMS: 2000})
		runs := 0
		err := agent.Lead(t.Context(), "payroll", func(context.Context, *batutaclient.Leadership) error {
			runs++
			time.Sleep(600 * time.Millisecond) // until the second question is on its way
			return nil
		}, batutaclient.Options{})
		if err != nil || runs != 1 {
			t.Errorf("the work ran %d times, %v", runs, err)
		}
	})
}

// If an answer does not come, there is time to ask again before the leadership is over.
func TestACallWithoutAnAnswerIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		valid := answer{State: "leading", Token: "1:1", ValidMS: 4000}
		agent := scripted(valid, answer{delay: time.Minute}, valid)
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
	})
}

// Work does not begin on an answer whose time has passed.
func TestALateAnswerBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := answer{State: "leading", Token: "1:1", ValidMS: 300, delay: time.Second}
		asked := time.Now()
		err := scripted(late, leading).Lead(t.Context(), "payroll", func(ctx context.Context, l *batutaclient.Leadership) error {
			if l.Left() <= 0 {
				t.Errorf("the work begins %v after the end", -l.Left())
			}
			return ctx.Err()
		}, batutaclient.Options{})
		if err != nil || time.Since(asked) < time.Second {
			t.Errorf("after %v: %v", time.Since(asked), err)
		}
	})
}

// An error after a loss does not end the candidacy; one of a work that leads does.
func TestAnErrorAfterALossIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		agent := scripted(leading, answer{State: "lost", Token: "1:1", Cause: "resigned"}, answer{State: "leading", Token: "2:1", ValidMS: 2000})
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
	})
}

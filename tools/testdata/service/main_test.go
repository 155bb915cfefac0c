package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

// The work writes under the fence of each leadership, and has stopped when one is lost.
func TestWork(t *testing.T) {
	fences := make(chan string)
	storage := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case fences <- r.FormValue("fence"):
		case <-r.Context().Done():
		}
	}))
	defer storage.Close()
	t.Setenv("STORAGE", storage.URL)
	e := batutatest.NewElector(t)
	go e.Lead(t.Context(), work)
	for _, want := range []string{"1", "2"} {
		e.Elect()
		if got := <-fences; got != want {
			t.Errorf("it writes under fence %s, want %s", got, want)
		}
		e.Lose(batuta.CauseSilent)
		select {
		case got := <-fences:
			t.Errorf("it writes under fence %s after the loss", got)
		default:
		}
	}
}

// Where the election has no fence the work ends with an error.
func TestNoFence(t *testing.T) {
	e := batutatest.NewElector(t)
	e.BestEffort = true
	done := make(chan error)
	go func() { done <- e.Lead(t.Context(), work) }()
	e.Elect()
	if err := <-done; err == nil {
		t.Error("it works without a fence")
	}
}

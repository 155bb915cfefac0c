package batuta_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

// A function of Lead that goes on after its leadership has ended is logged, with its election and for how long.
func TestWorkThatGoesOnIsLogged(t *testing.T) {
	for _, election := range []string{batuta.DefaultElection, "shard"} {
		t.Run(election, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out logged
				c := batutatest.New(t, 2, func(cfg *batuta.Config) {
					if cfg.ID == "2" {
						cfg.Logger = slog.New(slog.NewTextHandler(&out, nil))
					}
				})
				c.StartAll()
				c.Agree("2")
				n, began, release := c.Node("2"), make(chan struct{}, 1), make(chan struct{})
				go n.Election(election).Lead(t.Context(), func(context.Context, batuta.Leadership) error {
					began <- struct{}{}
					<-release
					return nil
				})
				<-began
				time.Sleep(10 * time.Second)
				if text := out.String(); strings.Contains(text, "work") {
					t.Errorf("it leads, and the log has:\n%s", text)
				}
				resigned := make(chan error, 1)
				go func() { resigned <- n.Election(election).Resign(t.Context()) }()
				time.Sleep(2 * time.Second)
				if text := out.String(); strings.Contains(text, "goes on") {
					t.Errorf("after 2 s the log has:\n%s", text)
				}
				time.Sleep(18 * time.Second)
				text := out.String()
				for _, want := range []string{"for=3s", "for=6s", "for=12s", "election=" + election, "token=", "work goes on after its context has ended"} {
					if !strings.Contains(text, want) {
						t.Errorf("after 20 s the log has no %s:\n%s", want, text)
					}
				}
				close(release)
				if err := <-resigned; err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if !strings.Contains(out.String(), "the work has returned") {
					t.Errorf("the log has no end of it:\n%s", out.String())
				}
			})
		})
	}
}

// logged is a log that several goroutines write.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

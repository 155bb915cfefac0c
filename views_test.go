package batuta_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/compat/boss"
	"github.com/batuta-dev/batuta/election/bully"
)

// Each member is asked over the links of members: with and without a majority rule, a member that is
// cut off answers nothing, and the other side of a partition answers with a leader of its own.
func TestMembersAreAskedForTheirViews(t *testing.T) {
	for name, change := range map[string]func(*batuta.Config){"bully": func(*batuta.Config) {}, "quorum": byMajority} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := batutatest.New(t, 5, change)
				c.StartAll()
				led := c.Agree("5")
				ask := func(id batuta.ID) map[batuta.ID]batuta.MemberView {
					views, err := c.Node(id).AskMembers(t.Context())
					if err != nil || len(views) != 4 {
						t.Fatalf("member %s: %v, %v", id, views, err)
					}
					by := map[batuta.ID]batuta.MemberView{}
					for i, v := range views {
						if by[v.ID] = v; i > 0 && views[i-1].ID > v.ID {
							t.Errorf("the list is %v", views)
						}
					}
					return by
				}
				for id, v := range ask("2") {
					if v.Err != nil || v.Token != led || v.Address == "" {
						t.Errorf("member %s answers %+v", id, v)
					}
				}
				c.Isolate("1")
				c.Kill("4")
				time.Sleep(10 * time.Second)
				views := ask("2")
				for _, id := range []batuta.ID{"1", "4"} {
					if views[id].Err == nil || views[id].Token.Defined() {
						t.Errorf("member %s is not there, and answers %+v", id, views[id])
					}
				}
				if led = c.Node("5").Leader().Token; views["3"].Token != led || views["5"].Token != led {
					t.Errorf("3 and 5 follow %v, and answer %+v", led, views)
				}
				for id, v := range ask("1") {
					if v.Err == nil {
						t.Errorf("to 1, which is cut off, member %s answers %+v", id, v)
					}
				}
				ended, end := context.WithCancel(t.Context())
				end()
				if _, err := c.Node("2").AskMembers(ended); !errors.Is(err, context.Canceled) {
					t.Errorf("when its context has ended: %v", err)
				}
				closed := c.Node("2")
				c.Stop("2")
				if _, err := closed.AskMembers(t.Context()); !errors.Is(err, batuta.ErrClosed) {
					t.Errorf("of a closed member: %v", err)
				}
			})
		})
	}
}

// A wire without the question has an error to match.
func TestAMemberOfTheBossWireCannotAsk(t *testing.T) {
	n, err := batuta.Start(t.Context(), batuta.Config{ID: "127.0.0.1", Listen: "127.0.0.1:0", Algorithm: bully.New(bully.WithDead()), Wire: boss.New(boss.Options{NodeType: "scrapper"})})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if _, err := n.AskMembers(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("it returns %v", err)
	}
}

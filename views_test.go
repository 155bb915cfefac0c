package batuta_test

import (
	"errors"
	"testing"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/compat/boss"
	"github.com/batuta-dev/batuta/election/bully"
)

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

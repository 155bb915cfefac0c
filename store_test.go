package batuta

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/disk/statefile"
)

func stateOf(epoch uint64) election.State {
	return election.State{ID: "5", Incarnation: 1234, Token: Token{Epoch: epoch, Leader: Rank{Priority: 2, ID: "4"}},
		Members: []election.Member{{Rank: Rank{ID: "4", Priority: 2}, Address: "127.0.0.1:7404", Version: 3, Departure: election.Left}}}
}

// saveTwice leaves epoch 6 as the previous copy and epoch 7 as the state.
func saveTwice(t *testing.T, dir string) {
	t.Helper()
	s, err := statefile.Open(dir, DefaultCluster, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, epoch := range []uint64{6, 7} {
		if err := s.Save(stateOf(epoch)); err != nil {
			t.Fatal(err)
		}
	}
}

// savedIn gives what the state file of a directory holds.
func savedIn(dir string) (election.State, error) {
	return statefile.Read(filepath.Join(dir, statefile.File))
}

func equalStates(a, b election.State) bool {
	return a.ID == b.ID && a.Incarnation == b.Incarnation && a.Token == b.Token &&
		slices.Equal(a.Members, b.Members)
}

func TestADirectoryThatCannotBeUsedIsRefusedAtStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	saveTwice(t, other)
	open := filepath.Join(t.TempDir(), "open")
	saveTwice(t, open)
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, statefile.File), []byte("damage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"a file": file, "below a file": filepath.Join(file, "d"), "another member's": other,
		"open to everyone": open, "damaged": damaged} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(t.Context(), Config{ID: "1", Listen: "127.0.0.1:0", DataDir: dir, Algorithm: bully.New()})
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAMemberRemembersItsIDAndEpoch(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Listen: "127.0.0.1:0", DataDir: dir}
	var id ID
	var last Status
	for range 3 {
		cfg.Algorithm = bully.New()
		n, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if id == "" {
			id = n.ID()
		}
		v := waitView(t, n, "it leads itself", View.Defined)
		if n.ID() != id || v.Token.Epoch <= last.Epoch {
			t.Errorf("member %s with epoch %d, after %s with %d", n.ID(), v.Token.Epoch, id, last.Epoch)
		}
		s := statusOf(n)
		if s.Incarnation <= last.Incarnation {
			t.Errorf("incarnation %d after %d", s.Incarnation, last.Incarnation)
		}
		if s.StateVersion != statefile.Version {
			t.Errorf("the layout of the data directory is %d, want %d", s.StateVersion, statefile.Version)
		}
		last = s
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if id.Kind() != election.UUID {
		t.Errorf("id %s", id)
	}
}

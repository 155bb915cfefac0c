package ring_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/sim"
)

var update = flag.Bool("update", false, "write the traces that scenarios give into their files")

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios found: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.ToSlash(file[len("testdata/"):]), ".txt"), func(t *testing.T) {
			t.Parallel()
			playFile(t, file)
		})
	}
}

func playFile(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sim.Parse(file, string(text))
	if err != nil {
		t.Fatal(err)
	}
	trace := sim.Trace{Messages: s.Messages}
	if _, err = s.Play(maker, trace.Add); err != nil {
		t.Errorf("%v\n%s", err, trace.Text())
		if v := (*sim.Violation)(nil); errors.As(err, &v) || !*update {
			return
		}
	}
	if *update {
		script, _, _ := strings.Cut(string(text), "\n----\n")
		if err := os.WriteFile(file, []byte(strings.TrimRight(script, "\n")+"\n----\n"+trace.Text()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := sim.Differs(s.Golden, trace.Text()); d != "" {
		t.Errorf("%s: %s\nplay it with \"batuta sim run --trace %s\"; if each change is meant, take it over with -update", file, d, file)
	}
}

package sim_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/bully"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/sim"
)

var update = flag.Bool("update", false, "write the traces that scenarios give into their files")

// maker knows the algorithms that have scenarios.
func maker(algorithm, probe string) (func() election.Algorithm, error) {
	p := map[string]bully.Probe{"": bully.Descending, "descending": bully.Descending, "all": bully.All}
	if _, ok := p[probe]; algorithm != "bully" || !ok {
		return nil, fmt.Errorf("no algorithm %q with probe %q: there is bully, with descending or all", algorithm, probe)
	}
	return func() election.Algorithm { return bully.New(bully.WithProbe(p[probe])) }, nil
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("../*/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios found: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(file)))+"/"+name, func(t *testing.T) {
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
	_, err = s.Play(maker, trace.Add)
	if err != nil {
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

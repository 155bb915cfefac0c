package simulate

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

type simRun struct {
	cli.Env
	trace, json          bool
	svg, mermaid, shiviz string
}

func newSimRunCommand(e cli.Env) *cobra.Command {
	r := &simRun{Env: e}
	cmd := &cobra.Command{
		Use:   "run FILE…",
		Short: "Play scenario files",
		Long: `run plays each scenario and compares its trace with the one in the file, if it
holds one. It ends with exit code 1 at the first broken rule, expectation or
trace. FILE - is standard input. The pictures are of the last scenario.

A file names the members, then line by line what happens and what must follow.
Links are 1-3 for both ways and 1>3 for one; # begins a comment.

` + scenario.Help(),
		Example: `  printf 'members 1 2 3\nagree\ncrash 3\nagree\nexpect leader 2\n' | batuta sim run - --trace
  batuta sim run election/bully/testdata/*.txt
  batuta sim run election/bully/testdata/leader_crash.txt --trace --svg election.svg`,
		Args: cli.Several("FILE", "election/bully/testdata/leader_crash.txt"),
	}
	f := cmd.Flags()
	f.BoolVar(&r.trace, "trace", false, "print the trace")
	f.StringVar(&r.svg, "svg", "", "draw a space-time diagram into `FILE`")
	f.StringVar(&r.mermaid, "mermaid", "", "write a Mermaid sequence diagram into `FILE`")
	f.StringVar(&r.shiviz, "shiviz", "", "write a ShiViz log into `FILE`")
	cli.JSONFlag(cmd, &r.json)
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		for _, file := range files {
			if err := r.play(cmd, file); err != nil {
				return labError(err)
			}
		}
		return nil
	}
	return cmd
}

// played is a line of --json.
type played struct {
	File     string   `json:"file"`
	OK       bool     `json:"ok"`
	Failure  string   `json:"failure,omitempty"`
	Leader   string   `json:"leader,omitempty"`
	Seconds  float64  `json:"simulated_seconds"`
	AgreedMS float64  `json:"longest_agreement_ms"`
	Trace    []string `json:"trace,omitempty"`
}

func (r *simRun) play(cmd *cobra.Command, file string) error {
	text, err := readScript(cmd, file)
	if err != nil {
		return err
	}
	s, err := scenario.Parse(file, text)
	if err != nil {
		return err
	}
	if _, err := algorithm.Maker(s.Setup.Algorithm, s.Setup.Option); err != nil {
		return err
	}
	log := trace.Log{Messages: s.Messages}
	var story trace.Story
	outcome, failure := sim.Play(s, algorithm.Maker, func(e trace.Entry) {
		log.Add(e)
		story.Add(e)
	})
	if failure == nil && s.Golden != "" {
		if d := trace.Differs(s.Golden, log.Text()); d != "" {
			failure = cli.Exit(cli.Failed, fmt.Errorf("%s: %s", file, d))
		}
	}
	if err := r.print(file, outcome, &log, failure); err != nil {
		return err
	}
	if err := r.draw(s, &story); err != nil {
		return err
	}
	return failure
}

func readScript(cmd *cobra.Command, file string) (string, error) {
	if file == "-" {
		var b strings.Builder
		_, err := io.Copy(&b, cmd.InOrStdin())
		return b.String(), err
	}
	text, err := os.ReadFile(file)
	return string(text), cli.Unread(err)
}

func (r *simRun) print(file string, o sim.Outcome, log *trace.Log, failure error) error {
	if r.json {
		p := played{File: file, OK: failure == nil, Leader: string(o.Leader), Seconds: o.Elapsed.Seconds(),
			AgreedMS: o.Agreed.Seconds() * 1000}
		if failure != nil {
			p.Failure = failure.Error()
		}
		if r.trace {
			p.Trace = log.Lines
		}
		return json.NewEncoder(r.Stdout).Encode(p)
	}
	if r.trace {
		fmt.Fprint(r.Stdout, log.Text())
	}
	if failure == nil {
		fmt.Fprintf(r.Stdout, "ok    %s  (%v simulated)\n", file, o.Elapsed)
	} else {
		fmt.Fprintf(r.Stdout, "FAIL  %s\n", file)
	}
	return nil
}

func (r *simRun) draw(s *scenario.Scenario, story *trace.Story) error {
	for path, draw := range map[string]func() string{
		r.svg:     func() string { return story.SVG(s) },
		r.mermaid: func() string { return story.Mermaid(s) },
		r.shiviz:  func() string { return story.ShiViz(s) },
	} {
		if path == "" {
			continue
		}
		if err := os.WriteFile(path, []byte(draw()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

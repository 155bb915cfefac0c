package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
	"github.com/batuta-dev/batuta/internal/work/hooks"
)

// Three agents that get the written files, and nothing else that concerns the election, elect.
func TestAgentsElectByWhatInitWrites(t *testing.T) {
	for _, flags := range [][]string{{"--secret", "--cluster", "payments"}, {"--tls", "--quorum"}, {"--quorum"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			ports, err := freeport.Find(3)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "a cluster")
			members := fmt.Sprintf("1=127.0.0.1:%d,2=127.0.0.1:%d,3=127.0.0.1:%d", ports[0], ports[1], ports[2])
			var out bytes.Buffer
			if code := run(t.Context(), append([]string{"init", "--members", members, "--dir", dir}, flags...), cli.Env{Stdout: &out, Stderr: &out, Lookup: os.LookupEnv}); code != 0 {
				t.Fatalf("exit code %d: %s", code, out.String())
			}
			var clients []*api.Client
			for id := 1; id <= 3; id++ {
				clients = append(clients, startWritten(t, filepath.Join(dir, fmt.Sprint(id), "batuta.yaml")))
			}
			proof, algorithm := "secret", "bully"
			for _, f := range flags {
				switch f {
				case "--tls":
					proof = "tls"
				case "--quorum":
					algorithm = "quorum"
				}
			}
			for end := time.Now().Add(agreeWithin); ; time.Sleep(20 * time.Millisecond) {
				seen := outlooks(t, clients)
				if len(seen) == 1 && seen[0].up == 3 && seen[0].leader != "" {
					if seen[0].proof != proof || seen[0].algorithm != algorithm {
						t.Errorf("the members have %+v, want %s and %s", seen[0], proof, algorithm)
					}
					return
				}
				if time.Now().After(end) {
					t.Fatalf("no leader of three after %v, but the views %+v", agreeWithin, seen)
				}
			}
		})
	}
}

// startWritten starts an agent with a written file; only its API has another port.
func startWritten(t *testing.T, config string) *api.Client {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{"batuta", "agent", "--config", config, "--http", "127.0.0.1:0", "--events", "json"}
	cmd.SysProcAttr = hooks.ChildAttributes()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.AfterFunc(2*agreeWithin, func() { cmd.Process.Kill() })
	t.Cleanup(func() { deadline.Stop(); cmd.Process.Kill(); cmd.Wait() })
	var ready struct {
		HTTP string `json:"http"`
	}
	lines := bufio.NewScanner(out)
	if err := json.Unmarshal([]byte(said(t, lines, `"ready"`)), &ready); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines.Scan() {
		}
	}()
	client, err := api.NewClient(ready.HTTP, api.Access{})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// outlook is a part of a member's status.
type outlook struct {
	leader, proof, algorithm string
	up                       int
}

// outlooks are the different outlooks of the agents.
func outlooks(t *testing.T, of []*api.Client) (all []outlook) {
	t.Helper()
	for _, client := range of {
		var s api.Status
		if err := client.Get(t.Context(), "/v1/status", &s); err != nil {
			t.Fatal(err)
		}
		v := outlook{proof: s.Security, algorithm: s.Algorithm}
		if s.Leader != nil {
			v.leader = *s.Leader
		}
		for _, m := range s.Members {
			if m.State == "up" {
				v.up++
			}
		}
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// If a member listens on the default port of the API, its API listens on a free one.
func TestInitGivesNoPortTwice(t *testing.T) {
	for members, want := range map[string]string{
		"1=127.0.0.1:7500,2=127.0.0.1:7502": "127.0.0.1:7501 127.0.0.1:7503",
		"1=127.0.0.1:7401,2=127.0.0.1:7402": "127.0.0.1:7500 127.0.0.1:7501",
		"db1:7500,db2":                      "127.0.0.1:7501 127.0.0.1:7500",
	} {
		dir := t.TempDir()
		if code, out := runCommand(t, "init", "--members", members, "--dir", dir); code != 0 {
			t.Fatal(out)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*", "batuta.yaml"))
		var got []string
		for _, file := range files {
			_, rest, _ := strings.Cut(read(t, file), "\nhttp: ")
			at, _, _ := strings.Cut(rest, "\n")
			got = append(got, at)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: the APIs are at %v, want %s", members, got, want)
		}
	}
}

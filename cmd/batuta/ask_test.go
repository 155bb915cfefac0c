package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/command/cli"
)

// Who does not say which agent asks that of the machine's configuration, else the one
// that is where an agent is by default.
func TestAnAgentIsFoundOnItsMachine(t *testing.T) {
	a := startLone(t)
	_, rest, _ := strings.Cut(said(t, bufio.NewScanner(a.stdout), "HTTP API on"), "HTTP API on ")
	api, _, _ := strings.Cut(rest, ";")
	nowhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere.Close()
	file := func(http string) string {
		path := filepath.Join(t.TempDir(), "batuta.yaml")
		if err := os.WriteFile(path, []byte("cluster: x\nhttp: "+http+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dead := nowhere.Addr().String()
	for _, tt := range []struct {
		name, config, agent string
		args                []string
		variables           map[string]string
		code                int
		says                string
	}{
		{"at the default", "", api, nil, nil, 0, "asked"},
		{"by the file", file(api), dead, nil, nil, 0, "asked"},
		{"by a file that leaves it open", file("127.0.0.1:0"), api, nil, nil, 0, "asked"},
		{"flags win", file(dead), dead, []string{"--agent", api}, map[string]string{"BATUTA_AGENT": dead}, 0, "asked"},
		{"by the earlier name", file(dead), dead, []string{"--http", api}, map[string]string{"BATUTA_HTTP": dead}, 0, "asked"},
		{"variables win over the file", file(dead), dead, nil, map[string]string{"BATUTA_AGENT": api, "BATUTA_HTTP": dead}, 0, "asked"},
		{"by the variable's earlier name", file(dead), dead, nil, map[string]string{"BATUTA_HTTP": api}, 0, "asked"},
		{"the file wins", file(dead), api, nil, nil, 4, "does not answer"},
		{"nowhere", "", dead, nil, nil, 4, "agent " + dead + " does not answer: connect: connection refused; start it, or give as --agent the address that an agent's ready event names"},
		{"no file", filepath.Join(t.TempDir(), "none"), api, nil, nil, 0, "asked"},
	} {
		var out bytes.Buffer
		code := run(t.Context(), append([]string{"status"}, tt.args...), cli.Env{Stdout: &out, Stderr: &out, Config: tt.config, Agent: tt.agent,
			Lookup: func(name string) (string, bool) { v, ok := tt.variables[name]; return v, ok }})
		if code != tt.code || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s", tt.name, code, tt.code, tt.says, out.String())
		}
	}
}

// Where no agent answers, every command that asks one ends with the same exit code, at the
// default address and at one that is given.
func TestNoAgentIsTheSameFailureEverywhere(t *testing.T) {
	nowhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere.Close()
	dead, commands := nowhere.Addr().String(), 0
	arguments := map[string][]string{"transfer": {"9"}, "drain": {"9"}, "undrain": {"9"}, "remove": {"9"}, "add": {"9=127.0.0.1:1"}, "lock": {"nightly", "--", "true"},
		"batuta jobs run": {"report"}, "batuta jobs pause": {"report"}, "batuta jobs resume": {"report"}}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		if cmd.Flags().Lookup("agent") == nil {
			return
		}
		commands++
		for _, at := range [][]string{nil, {"--agent", dead}} {
			if strings.HasPrefix(cmd.CommandPath(), "batuta superpeer") && at == nil {
				continue // its default is not of the test's choosing
			}
			var out bytes.Buffer
			args := slices.Concat(strings.Fields(cmd.CommandPath())[1:], at, arguments[cmd.Name()], arguments[cmd.CommandPath()])
			code := run(t.Context(), args, cli.Env{Stdout: &out, Stderr: &out, Agent: dead, Lookup: func(string) (string, bool) { return "", false }})
			if code != cli.NoAgent || !strings.Contains(out.String(), "agent "+dead+" does not answer") {
				t.Errorf("%q ended with %d: %s", args, code, out.String())
			}
		}
	}
	visit(newRootCommand(cli.Env{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}))
	if commands < 10 {
		t.Errorf("only %d commands ask an agent", commands)
	}
}

// A flag that takes one of a few words has them completed, not the names of files.
func TestWordsOfFlagsAreCompleted(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			_, given := cmd.GetFlagCompletionFunc(f.Name)
			if word := regexp.MustCompile("`(MODE|POLICY)`|, prefix-exact or ").MatchString(f.Usage); word && !given {
				t.Errorf("%s --%s is completed by files", cmd.CommandPath(), f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(cli.Env{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}))
}

// The shell completes what a flag may be, and who is a member.
func TestCompletion(t *testing.T) {
	a := startLone(t, "--member", "2=127.0.0.1:1")
	_, rest, _ := strings.Cut(said(t, bufio.NewScanner(a.stdout), "HTTP API on"), "HTTP API on ")
	api, _, _ := strings.Cut(rest, ";")
	for line, want := range map[string][]string{
		"agent --algorithm ":                 {"bully", "ring", "chang-roberts"},
		"agent --profile ":                   {"lan", "sharp", "wan"},
		"agent --events ":                    {"json", "off", "text"},
		"run --log-level ":                   {"debug", "info", "warn", "error"},
		"agent --probe ":                     {"all", "descending"},
		"bench failover --fault ":            {"crash", "freeze", "resign", "return"},
		"members remove --http " + api + " ": {"1", "2"},
		"transfer --http " + api + " ":       {"1", "2"},
		"drain ":                             {"1", "2"}, // the agent of BATUTA_AGENT
	} {
		var out bytes.Buffer
		words := append([]string{"__complete"}, strings.Split(line, " ")...)
		run(t.Context(), words, cli.Env{Stdout: &out, Stderr: &bytes.Buffer{},
			Lookup: func(name string) (string, bool) { v, ok := map[string]string{"BATUTA_AGENT": api}[name]; return v, ok }})
		for _, w := range want {
			if !strings.Contains("\n"+out.String(), "\n"+w+"\n") && !strings.Contains("\n"+out.String(), "\n"+w+"\t") {
				t.Errorf("batuta %s[TAB] does not give %s:\n%s", line, w, out.String())
			}
		}
	}
}

// GNU timeout sends SIGTERM twice at once: that is one wish to end, and no reason to
// end without handing over.
func TestASignalThatComesTwiceHandsOver(t *testing.T) {
	hook := filepath.Join(t.TempDir(), "slow")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ntest \"$BATUTA_EVENT\" = start || sleep 0.5\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	a := startLone(t, "--on-lose", hook)
	out := bufio.NewScanner(a.stdout)
	said(t, out, "this member (")
	for range 2 {
		if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // or the kernel may make one of the two
	}
	said(t, out, "lost leadership, epoch")
	for out.Scan() { // to the end
	}
	if err := a.cmd.Wait(); err != nil {
		t.Error(fmt.Errorf("it did not end well: %w", err))
	}
}

// A requested run is on the member that leads the job, also while the last run known is the one before.
func TestARequestedRunIsOnTheLeader(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"name":"report","leader":"2","by":"1","result":"ok"}`))
	}))
	defer server.Close()
	var out bytes.Buffer
	code := run(t.Context(), []string{"jobs", "run", "report", "--agent", strings.TrimPrefix(server.URL, "http://")},
		cli.Env{Stdout: &out, Stderr: &out, Lookup: func(string) (string, bool) { return "", false }})
	if code != 0 || out.String() != "report runs on 2\n" {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

// A user that ends "batuta drain" reads what the member still leads.
func TestADrainThatIsInterruptedReportsWhatIsLeft(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var looks atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.Write([]byte(`{"id":"1"}`))
			return
		}
		if looks.Add(1) == 2 {
			time.AfterFunc(20*time.Millisecond, interrupt)
		}
		w.Write([]byte(`[{"name":"report","leader":"1"}]`))
	}))
	defer server.Close()
	var out bytes.Buffer
	code := run(ctx, []string{"drain", "1", "--agent", strings.TrimPrefix(server.URL, "http://")},
		cli.Env{Stdout: &out, Stderr: &out, Lookup: func(string) (string, bool) { return "", false }})
	if text := out.String(); code != cli.Failed || !strings.Contains(text, "interrupted") || strings.Contains(text, "context canceled") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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
		code                int
		says                string
	}{
		{"at the default", "", api, nil, 0, "asked"},
		{"by the file", file(api), dead, nil, 0, "asked"},
		{"by a file that leaves it open", file("127.0.0.1:0"), api, nil, 0, "asked"},
		{"flags win", file(dead), dead, []string{"--http", api}, 0, "asked"},
		{"the file wins", file(dead), api, nil, 4, "does not answer"},
		{"nowhere", "", dead, nil, 4, "agent " + dead + " does not answer: connect: connection refused; start it, or give as --http the address that an agent's ready event names"},
		{"no file", filepath.Join(t.TempDir(), "none"), "", nil, 2, "which agent? give --http HOST:PORT"},
	} {
		var out bytes.Buffer
		code := run(t.Context(), append([]string{"status"}, tt.args...), env{stdout: &out, stderr: &out, config: tt.config, agent: tt.agent,
			lookup: func(string) (string, bool) { return "", false }})
		if code != tt.code || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: exit code %d, want %d and %q: %s", tt.name, code, tt.code, tt.says, out.String())
		}
	}
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
		"bench failover --fault ":            {"crash", "freeze", "resign"},
		"members remove --http " + api + " ": {"1", "2"},
		"transfer --http " + api + " ":       {"1", "2"},
	} {
		var out bytes.Buffer
		words := append([]string{"__complete"}, strings.Split(line, " ")...)
		run(t.Context(), words, env{stdout: &out, stderr: &bytes.Buffer{}, lookup: func(string) (string, bool) { return "", false }})
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
	said(t, out, "leads: this member")
	for range 2 {
		if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // or the kernel may make one of the two
	}
	said(t, out, "leads no more")
	for out.Scan() { // to the end
	}
	if err := a.cmd.Wait(); err != nil {
		t.Error(fmt.Errorf("it did not end well: %w", err))
	}
}

package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The newcomer of "Scrapper" follows the boss that it finds; so does batuta's beside it.
func TestPreemptionIsOffOnTheBossWireUnlessGiven(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{"--insecure", "--wire", "boss", "--node-type", "scrapper", "--id", "172.18.0.5"}, true},
		{[]string{"--insecure", "--wire", "boss", "--node-type", "scrapper", "--id", "172.18.0.5", "--preempt"}, false},
		{[]string{"--insecure", "--wire", "boss", "--node-type", "scrapper", "--id", "172.18.0.5", "--preempt=false"}, true},
		{nil, false},
	} {
		var f agentFlags
		fs := pflag.NewFlagSet("agent", pflag.ContinueOnError)
		f.register(fs)
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		config, err := f.config(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if config.Wire != nil {
			config = config.Wire.Defaults(config)
		}
		if config.NoPreempt != c.want {
			t.Errorf("%v: no preemption %v, want %v", c.args, config.NoPreempt, c.want)
		}
	}
}

// What "config show" prints, read as a file, is the same configuration.
func TestWhatConfigShowPrintsCanBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "batuta.yaml")
	for _, args := range []string{
		"--id 1 --no-preempt",
		"--id 1 --preempt=false",
		"--id 1 --profile wan --probe all",
		"--id 1 --check true --rise 3 --meta a=b --member 2=127.0.0.1:7402",
		"--id 1 --algorithm quorum --data-dir x",
		"--id 127.0.0.5 --wire boss --node-type scrapper",
		"--id 127.0.0.5 --wire boss --node-type scrapper --preempt --heartbeat 100ms",
	} {
		var shown [2]string
		for i, from := range []string{args, "--config " + file} {
			code, out := runCommand(t, append([]string{"config", "show"}, strings.Fields(from)...)...)
			if code != 0 {
				t.Fatalf("%s: %s", from, out)
			}
			if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out) {
				value, _, _ := strings.Cut(line, " #")
				shown[i] += strings.TrimSpace(value) + "\n"
			}
			if code, out := runCommand(t, "config", "check", "--config", file); code != 0 {
				t.Errorf("%s: its file is refused: %s", args, out)
			}
		}
		if shown[0] != shown[1] {
			t.Errorf("%s: shown is\n%s, and by its file\n%s", args, shown[0], shown[1])
		}
		_, checked := runCommand(t, append([]string{"config", "show", "--json"}, strings.Fields(args)...)...)
		if boss := strings.Contains(args, "boss"); boss != strings.Contains(checked, "127.0.0.5:8080") || boss && strings.Contains(args, "--preempt") != strings.Contains(checked, `"preempt":"true"`) {
			t.Errorf("%s: it shows %s", args, checked)
		}
	}
}

// A file has one document, and an empty value in every spelling of YAML is empty.
func TestAConfigFileIsReadWhole(t *testing.T) {
	file := filepath.Join(t.TempDir(), "batuta.yaml")
	for text, want := range map[string]string{
		"id: 1\n---\nid: 2\n": "more than one document",
		"---\nid: 1\n...\n":   `"id":"1"`,
		"# nothing\n":         `"id":""`,
		"data-dir: ~\n":       `"data-dir":""`,
		"data-dir: null\n":    `"data-dir":""`,
		"data-dir: 'null'\n":  `"data-dir":"null"`,
		"data-dir:\n":         `"data-dir":""`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, out := runCommand(t, "config", "show", "--json", "--config", file); !strings.Contains(out, want) {
			t.Errorf("%q: want %s: %s", text, want, out)
		}
	}
}

// What could not be written whole is not left: a key of an authority without its certificate fits no other.
func TestAKeyIsNotLeftWithoutItsCertificate(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out := runCommand(t, "tls", "ca", "--dir", dir)
	if left, err := os.ReadDir(dir); code != 2 || !strings.Contains(out, "is there already") || len(left) != 1 || err != nil {
		t.Errorf("exit %d, %s; it leaves %v", code, out, left)
	}
}

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/command/cli"
)

var (
	shellWord = regexp.MustCompile(`(?:[^\s'"]|'[^']*'|"[^"]*")+`)
	shellEnd  = regexp.MustCompile(`^(#|[|&;<>]|\d?>|\|\|)`)
	ours      = regexp.MustCompile(`^(?:\$ )?(?:sudo -u \w+ )?(?:go run \./cmd/)?batuta( [a-z]|$)`)
)

// TestCommandsOfPages parses each batuta command in a block of code of each page: the command
// exists, with these flags and this number of arguments. TestTutorials runs those of tutorials, and
// TestCommandsOfPagesAreRun those of all further pages.
func TestCommandsOfPages(t *testing.T) {
	checked := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/README.md", "packaging/helm/*/README.md"} {
		pages, err := filepath.Glob("../../" + pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("no page is %s: %v", pattern, err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range commandsOf(string(text)) {
				checked++
				if err := parsedAsCommand(line); err != nil {
					t.Errorf("%s: %s: %v", strings.TrimPrefix(page, "../../"), line, err)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands were found", checked)
	}
}

func TestCommandsOfPagesAreParsed(t *testing.T) {
	for line, right := range map[string]bool{
		"batuta status --http 127.0.0.1:7500   # who leads": true,
		"batuta run --id 1 -- ./worker --its-own flag":      true,
		"batuta leader | grep 3":                            true,
		"batuta statuses":                                   false,
		"batuta status --htttp 127.0.0.1:7500":              false,
		"batuta members remove":                             false,
	} {
		if err := parsedAsCommand(line); (err == nil) != right {
			t.Errorf("%s: %v", line, err)
		}
	}
	page := "text\n\n```sh\nbatuta run \\\n  -- ./a\nls\n```\n\nbatuta runs\n"
	if got := commandsOf(page); fmt.Sprint(got) != "[batuta run -- ./a]" {
		t.Errorf("the page has %q", got)
	}
}

// commandsOf lists the lines of a page's blocks of code that begin with our command.
func commandsOf(page string) (list []string) {
	code := false
	for line := range strings.Lines(strings.ReplaceAll(page, "\\\n", "")) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case code && ours.MatchString(line):
			list = append(list, strings.Join(strings.Fields(line), " "))
		}
	}
	return list
}

// parsedAsCommand finds what is wrong with a line of a shell, up to a comment or the next command.
func parsedAsCommand(line string) error {
	var args []string
	line = line[strings.LastIndex(ours.FindString(line), "batuta")+len("batuta"):]
	for _, word := range shellWord.FindAllString(line, -1) {
		if word == "…" { // flags that an earlier command shows
			continue
		}
		if shellEnd.MatchString(word) {
			break
		}
		args = append(args, strings.NewReplacer("'", "", `"`, "").Replace(word))
	}
	cmd, rest, err := newRootCommand(cli.Env{Stdout: io.Discard, Stderr: io.Discard}).Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

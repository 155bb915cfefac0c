package tidy

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest     = regexp.MustCompile("`(Test[A-Z]\\w*)`")
	namedScenario = regexp.MustCompile("(package )?`([a-z][a-z0-9_]*)`")
	declaredTest  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	evidence      = regexp.MustCompile(`(?s)\*Checked:\*.*?(\n\n|\n- |\n\||$)`)
)

// What a page names as the check of a statement exists: the test functions, and after
// "*Checked:*" the scenarios.
func TestChecksExist(t *testing.T) {
	tests, scenarios := map[string]bool{}, map[string]bool{}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case strings.HasSuffix(name, "_test.go"):
			text, err := os.ReadFile(name)
			for _, m := range declaredTest.FindAllStringSubmatch(string(text), -1) {
				tests[m[1]] = true
			}
			return err
		case path.Ext(name) == ".txt" && strings.Contains(name, "testdata/"):
			scenarios[strings.TrimSuffix(path.Base(name), ".txt")] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedTest.FindAllStringSubmatch(string(text), -1) {
			checked++
			if !tests[m[1]] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
		for _, part := range evidence.FindAllString(string(text), -1) {
			for _, m := range namedScenario.FindAllStringSubmatch(part, -1) {
				checked++
				if m[1] == "" && !scenarios[m[2]] {
					t.Errorf("%s names the scenario %s, which does not exist", page, m[2])
				}
			}
		}
	}
	if checked < 150 {
		t.Errorf("only %d names were found", checked)
	}
}

// The messages by which a reader finds a row of the page on trouble are those of the program.
func TestMessagesOfTroubleshootingExist(t *testing.T) {
	var source strings.Builder
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		source.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for n, line := range prose(t, "docs/troubleshooting.md") {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		sign, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, message := range quoted.FindAllString(sign, -1) {
			for part := range strings.SplitSeq(strings.Trim(message, "`"), "…") {
				part = strings.Trim(part, " :,;")
				if len(part) < 12 || !strings.Contains(part, " ") || strings.HasPrefix(part, "batuta ") {
					continue
				}
				if strings.HasPrefix(part, "x509: ") || strings.HasPrefix(part, "tls: ") { // of Go's own library
					continue
				}
				checked++
				if !strings.Contains(source.String(), part) {
					t.Errorf("docs/troubleshooting.md:%d: no message has %q", n+1, part)
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d messages were found", checked)
	}
}

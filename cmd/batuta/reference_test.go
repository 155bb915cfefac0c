package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/testkit/page"
)

var updateReference = flag.Bool("update-reference", false, "write the generated parts of docs/reference-*.md, and internal/api/testdata/openapi.json")

// docs/reference-config.md has every setting, every command and the exit codes, as the code has them.
func TestReferenceOfTheConfiguration(t *testing.T) {
	page.Hold(t, "../../docs/reference-config.md", map[string]string{"settings": referenceSettings(), "commands": referenceCommands(), "exit codes": referenceCodes()},
		*updateReference, "go test ./cmd/batuta -run Reference -update-reference")
}

// referenceSettings has a table for each section of the help.
func referenceSettings() string {
	has := func(command, name string) bool {
		cmd, _, err := newRootCommand(cli.Env{Stdout: io.Discard, Stderr: io.Discard}).Find([]string{command})
		return err == nil && cmd.Flags().Lookup(name) != nil
	}
	var b strings.Builder
	for _, section := range sectionsOfRun() {
		fmt.Fprintf(&b, "### %s\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n", section.Title)
		for _, f := range section.flags {
			kind, usage := pflag.UnquoteUsage(f)
			only := ""
			if !has("agent", f.Name) {
				only = " (`batuta run` only)"
			} else if !has("run", f.Name) {
				only = " (`batuta agent` only)"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s%s |\n", f.Name, kind, code(defaultOf(f)), cell(usage), only)
		}
		b.WriteString("\n")
	}
	return b.String()
}

type settingsSection struct {
	Title string
	flags []*pflag.Flag
}

// sectionsOfRun gives the settings in the order of the help of "batuta run", then those that only
// "batuta agent" has.
func sectionsOfRun() []settingsSection {
	var all pflag.FlagSet
	new(settings).register(&all)
	var list []settingsSection
	title := regexp.MustCompile(`^([A-Z][A-Za-z ]+):$`)
	flags := regexp.MustCompile(`^\s+(?:-\w, )?--([a-z0-9-]+)`)
	seen := map[string]bool{"config": true}
	for _, command := range []string{"run", "agent"} {
		var out bytes.Buffer
		root := newRootCommand(cli.Env{Stdout: &out, Stderr: &out})
		root.SetArgs([]string{command, "--help-all"})
		root.SetOut(&out)
		_ = root.Execute() // help does not fail
		at := -1
		for line := range strings.Lines(out.String()) {
			if m := title.FindStringSubmatch(strings.TrimSpace(line)); m != nil && m[1] != "Examples" {
				name := strings.Replace(m[1], "Flags", "Most used", 1)
				if at = slices.IndexFunc(list, func(s settingsSection) bool { return s.Title == name }); at < 0 {
					at = len(list)
					list = append(list, settingsSection{Title: name})
				}
			} else if m := flags.FindStringSubmatch(line); m != nil && at >= 0 && !seen[m[1]] {
				if f := all.Lookup(m[1]); f != nil {
					seen[m[1]] = true
					list[at].flags = append(list[at].flags, f)
				}
			}
		}
	}
	return list
}

// defaultOf is the default of a flag; nothing where that is empty.
func defaultOf(f *pflag.Flag) string {
	if f.DefValue == "[]" || f.DefValue == "0s" || f.DefValue == "0" {
		return ""
	}
	return f.DefValue
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + cell(text) + "`"
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`, "_", `\_`).Replace(text)
}

func referenceCommands() string {
	var b strings.Builder
	b.WriteString("| command | what it does |\n| --- | --- |\n")
	everyCommand(func(cmd *cobra.Command) {
		if cmd.HasParent() && cmd.IsAvailableCommand() && !cmd.Parent().Hidden {
			fmt.Fprintf(&b, "| `%s` | %s |\n", cmd.CommandPath(), cell(cmd.Short))
		}
	})
	return b.String()
}

func referenceCodes() string {
	var b strings.Builder
	b.WriteString("| exit code | meaning |\n| --- | --- |\n")
	for line := range strings.Lines(cli.Codes) {
		number, meaning, _ := strings.Cut(strings.TrimSpace(line), "  ")
		fmt.Fprintf(&b, "| %s | %s |\n", number, cell(meaning))
	}
	return b.String()
}

// Every setting of an agent is on the page.
func TestEverySettingIsInTheReference(t *testing.T) {
	var all pflag.FlagSet
	new(settings).register(&all)
	page := referenceSettings()
	all.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(page, "| `"+f.Name+"` |") && f.Name != "config" && !f.Hidden {
			t.Errorf("--%s is in no table of docs/reference-config.md: name it in helpTexts", f.Name)
		}
	})
}

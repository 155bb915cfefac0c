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

// Each example has a short README, which the index links and which starts it with the commands
// of its own comment.
func TestEveryExampleHasAReadme(t *testing.T) {
	index, err := os.ReadFile("examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^//\t((?:go run|cd|curl|nc) .*?)(?:\s+#.*)?$`)
	examples, commands := 0, 0
	for _, dir := range exampleDirs(t) {
		examples++
		page := dir + "/README.md"
		if link, _ := filepath.Rel("examples", page); !strings.Contains(string(index), "]("+filepath.ToSlash(link)+")") {
			t.Errorf("examples/README.md does not link to %s", page)
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
			continue
		}
		if lines := strings.Count(string(text), "\n"); lines > 25 {
			t.Errorf("%s has %d lines, at most 25 are read", page, lines)
		}
		source, _ := os.ReadFile(dir + "/main.go") // configuration files have none
		for _, match := range command.FindAllStringSubmatch(string(source), -1) {
			commands++
			if !strings.Contains(string(text), "\n"+match[1]) {
				t.Errorf("%s does not have the command of main.go: %s", page, match[1])
			}
		}
	}
	if examples < 10 || commands < 10 {
		t.Errorf("found %d examples and %d commands, want at least 10 of each", examples, commands)
	}
}

// exampleDirs lists the directories of examples that hold files.
func exampleDirs(t *testing.T) []string {
	t.Helper()
	var dirs []string
	for _, root := range []string{"examples", "superpeer/examples"} {
		err := fs.WalkDir(os.DirFS("."), root, func(name string, entry fs.DirEntry, err error) error {
			if dir := path.Dir(name); err == nil && !entry.IsDir() && dir != root && (len(dirs) == 0 || dirs[len(dirs)-1] != dir) {
				dirs = append(dirs, dir)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return dirs
}

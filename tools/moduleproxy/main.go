// Command moduleproxy writes the modules of a commit as a module proxy serves them, in files below a directory.
// CI fetches and installs batuta with it, as a stranger will:
//
//	go run ./moduleproxy REPOSITORY DIRECTORY VERSION
//	GOPROXY=file://DIRECTORY,https://proxy.golang.org GONOSUMDB=github.com/batuta-dev/* go get github.com/batuta-dev/batuta@VERSION
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const root = "github.com/batuta-dev/batuta"

// others are modules that no user fetches: those of tests, examples and tools. packaging/release.sh has the same.
var others = regexp.MustCompile(`(^|/)(internal/(testkit|\w+test)|examples|packaging|tools)(/|$)`)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: moduleproxy REPOSITORY DIRECTORY VERSION")
		os.Exit(2)
	}
	files, err := exec.Command("git", "-C", os.Args[1], "ls-tree", "-r", "--name-only", "HEAD").Output()
	if err != nil {
		fmt.Fprintf(os.Stderr, "moduleproxy: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
	for file := range strings.Lines(string(files)) {
		file = strings.TrimSpace(file)
		if path.Base(file) != "go.mod" || others.MatchString(path.Dir(file)) {
			continue
		}
		m := module.Version{Path: path.Join(root, path.Dir(file)), Version: os.Args[3]}
		if err := write(os.Args[1], strings.TrimSuffix(path.Dir(file), "."), m, os.Args[2]); err != nil {
			fmt.Fprintf(os.Stderr, "moduleproxy: %s: %v\n", m.Path, err)
			os.Exit(1)
		}
	}
}

// write puts what a proxy serves of m at repository's HEAD below dir.
func write(repository, folder string, m module.Version, dir string) error {
	dir = filepath.Join(dir, m.Path, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{m.Version, time.Now().UTC()})
	if err != nil {
		return err
	}
	mod, err := exec.Command("git", "-C", repository, "show", "HEAD:"+filepath.Join(folder, "go.mod")).Output()
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"list": []byte(m.Version + "\n"), m.Version + ".info": info, m.Version + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(dir, m.Version+".zip"))
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := zip.CreateFromVCS(archive, m, repository, "HEAD", folder); err != nil {
		return err
	}
	return archive.Close()
}

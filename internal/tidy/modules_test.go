package tidy

import (
	"go/parser"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// required is what the root's go.mod may name: what a service compiles.
var required = []string{
	"github.com/fxamacker/cbor/v2",
	"github.com/google/renameio/v2",
	"github.com/google/uuid",
	"github.com/x448/float16",
	"golang.org/x/sys",
	"golang.org/x/text",
}

// others are modules that no user fetches: those of tests, examples and tools.
const others = `(^|/)(internal/(testkit|\w+test)|examples|packaging|tools)(/|$)`

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// nested are the folders of all modules but the root.
func nested(t *testing.T) (folders []string) {
	t.Helper()
	for _, file := range strings.Fields(git(t, "ls-files", "*/go.mod")) {
		if _, err := os.Stat(file); err == nil { // not removed
			folders = append(folders, path.Dir(file))
		}
	}
	if len(folders) < 10 {
		t.Fatalf("only these modules are found: %q", folders)
	}
	return folders
}

// A service downloads and checks what the root's go.mod names, also what it does not compile.
func TestTheRootRequiresWhatAServiceCompiles(t *testing.T) {
	var names []string
	for _, line := range regexp.MustCompile(`(?m)^(?:\t|require )([a-z]\S+) v`).FindAllStringSubmatch(read(t, "go.mod"), -1) {
		names = append(names, line[1])
	}
	for _, name := range names {
		if !slices.Contains(required, name) {
			t.Errorf("go.mod names %s: what needs it belongs to a module of its own", name)
		}
	}
	for _, name := range required {
		if !slices.Contains(names, name) {
			t.Errorf("go.mod does not name %s any more: remove it from this list", name)
		}
	}
}

// Not even a test of the root may import a package of another module: go.mod would name that module.
func TestTheRootImportsNoOtherModule(t *testing.T) {
	modules := nested(t)
	within := func(file string) bool {
		return slices.ContainsFunc(modules, func(folder string) bool { return file == folder || strings.HasPrefix(file, folder+"/") })
	}
	for _, file := range strings.Fields(git(t, "ls-files", "*.go")) {
		if within(file) || strings.Contains(file, "testdata/") {
			continue
		}
		source, err := parser.ParseFile(fileSet, file, nil, parser.ImportsOnly)
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range source.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if target, ours := strings.CutPrefix(name, module+"/"); ours && within(target) {
				t.Errorf("%s imports %s, which is of another module", file, name)
			}
		}
	}
}

// Where modules are listed by hand, none is forgotten.
func TestModulesAreListed(t *testing.T) {
	lists := map[string]string{}
	for _, file := range []string{"go.work", "packaging/Dockerfile", ".github/dependabot.yml", "CONTRIBUTING.md", "docs/stability.md"} {
		lists[file] = read(t, file)
	}
	listed := func(file, text string) {
		t.Helper()
		if !strings.Contains(lists[file], text) {
			t.Errorf("%s has no %q: each module is there", file, text)
		}
	}
	for _, folder := range nested(t) {
		fetched := !regexp.MustCompile(others).MatchString(folder)
		if _, err := os.Stat(folder + "/go.work"); err != nil && !strings.HasPrefix(folder, "engines/internal/") {
			listed("go.work", "\t./"+folder+"\n")
			listed("packaging/Dockerfile", "COPY "+folder+"/go.mod ")
		}
		if !strings.HasPrefix(folder, "engines/internal/") {
			listed("CONTRIBUTING.md", "`"+folder+"`")
		}
		if fetched && !strings.Contains("/"+folder+"/", "/internal/") && !strings.Contains("/"+folder+"/", "/cmd/") {
			listed("docs/stability.md", "`"+folder+"`")
		}
		if folder != "engines/internal/kubetest" { // it has what Kubernetes' release has
			listed(".github/dependabot.yml", `"/`+folder+`"`)
		}
	}
	for _, file := range []string{"packaging/release.sh", "tools/moduleproxy/main.go"} {
		if !strings.Contains(read(t, file), others) {
			t.Errorf("%s has other modules that no user fetches than this test: %s", file, others)
		}
	}
}

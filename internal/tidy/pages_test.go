package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

// A page that names functions tells of functions that exist, in the files that it
// says.
func TestTheArchitecturePageIsTrue(t *testing.T) {
	named := regexp.MustCompile("`([A-Za-z.]+)` \\(`([a-zA-Z0-9_/.]+\\.go)`\\)")
	for _, page := range []string{"docs/architecture.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		all := named.FindAllStringSubmatch(strings.Join(strings.Fields(string(text)), " "), -1)
		if page == "docs/architecture.md" && len(all) < 20 {
			t.Errorf("%s names only %d functions", page, len(all))
		}
		for _, m := range all {
			if !declares(t, m[2], m[1]) {
				t.Errorf("%s names %s in %s, which has no such function", page, m[1], m[2])
			}
		}
	}
}

// A stranger finds every package on the plan of the house; examples and what is built to be
// looked at beside a package stand for themselves.
func TestEveryPackageIsOnThePlan(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.Command("go", "list", "work").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, full := range strings.Fields(string(list)) {
		name := strings.TrimPrefix(strings.TrimPrefix(full, "github.com/batuta-dev/batuta"), "/")
		if strings.Contains("/"+name, "/examples/") || strings.Contains(name, "internal/command/lab/") || strings.HasPrefix(name, "compat/boss/internal") {
			continue
		}
		if !onThePlan(string(page), name) {
			t.Errorf("docs/architecture.md does not show %s", name)
		}
	}
}

// onThePlan is whether the page has the name of a package, or that of its floor and, as a word, its own.
func onThePlan(page, name string) bool {
	if strings.Contains(page, name) {
		return true
	}
	floor, room := path.Split(strings.Replace(name, "cmd/batuta/internal/", "cmd/batuta/", 1))
	return strings.Contains(page, strings.TrimSuffix(floor, "/")) && regexp.MustCompile(`\b`+room+`\b`).MatchString(page)
}

// Every page that speaks of fencing says the same: tokens are compared, not epochs, and
// only under quorum is one a fence.
func TestFencingIsTheSameEverywhere(t *testing.T) {
	says := map[string][]string{
		"README.md":          {"never the epoch alone", "is the token a fencing token? | **no**"},
		"README.es.md":       {"nunca la época sola", "¿es el token un *fencing token*? | **no**"},
		"doc.go":             {"never the epoch alone", "only under quorum is the token a fence"},
		"election/id.go":     {"never the epoch alone", "Only under quorum is it a fence"},
		"docs/guarantees.md": {"never the epoch alone", "only under `quorum` is the token a fence"},
	}
	against := regexp.MustCompile(`(?i)(refuses|compare) the (lower )?epoch\b|epoch is (then )?(no|a) fence|fence with the epoch`)
	for page, want := range says {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		plain := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", " ")), " ")
		for _, w := range want {
			if !strings.Contains(plain, w) {
				t.Errorf("%s does not say %q", page, w)
			}
		}
		if found := against.FindString(plain); found != "" {
			t.Errorf("%s says %q", page, found)
		}
	}
}

// declares reports whether a file has a function, or a method as Type.method.
func declares(t *testing.T, path, name string) bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Error(err)
		return false
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		full := f.Name.Name
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if id, ok := of.(*ast.Ident); ok {
				full = id.Name + "." + full
			}
		}
		if full == name {
			return true
		}
	}
	return false
}

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
	list, err := exec.Command("go", "list", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, full := range strings.Fields(string(list)) {
		name := strings.TrimPrefix(strings.TrimPrefix(full, "github.com/batuta-dev/batuta"), "/")
		if strings.HasPrefix(name, "examples/") || strings.Contains(name, "internal/lab/") || strings.HasPrefix(name, "compat/boss/internal") {
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
	floor, room := path.Split(name)
	return strings.Contains(page, strings.TrimSuffix(floor, "/")) && regexp.MustCompile(`\b`+room+`\b`).MatchString(page)
}

// Every page that speaks of fencing says the same: tokens are compared, not epochs, and
// only under quorum is one a fence.
func TestFencingIsTheSameEverywhere(t *testing.T) {
	says := map[string][]string{
		"README.md":          {"never the epoch alone", "is the token a fencing token? | **no**"},
		"README.es.md":       {"nunca la época sola", "¿es el token un *fencing token*? | **no**"},
		"doc.go":             {"never the epoch alone", "only under quorum is the token a fence"},
		"election/token.go":  {"never the epoch alone", "Only under quorum is it a fence"},
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

// TestTheSpanishReadmeFollows compares what both languages have alike: the structure, what
// stands in code blocks before a comment, the links, and every figure.
func TestTheSpanishReadmeFollows(t *testing.T) {
	english, spanish := skeleton(t, "README.md"), skeleton(t, "README.es.md")
	for i := range min(len(english), len(spanish)) {
		if english[i] != spanish[i] {
			t.Fatalf("README.md has %q where README.es.md has %q", english[i], spanish[i])
		}
	}
	if len(english) != len(spanish) {
		t.Errorf("README.md has %d headings, lines of code, links and figures, README.es.md %d", len(english), len(spanish))
	}
}

var (
	comment = regexp.MustCompile(`\s*(#|//) .*`)
	figures = regexp.MustCompile(`\]\([^)]*\)|\d+(?:[.,]\d+)*`)
)

// skeleton lists a page's headings by level, its lines of code without their comments,
// its links by target and its numbers.
func skeleton(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	alike := strings.NewReplacer("README.md", "README.es.md")
	var parts []string
	code := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch level, _, heading := strings.Cut(line, " "); {
		case strings.HasPrefix(line, "```"):
			code = !code
			parts = append(parts, line)
		case code:
			parts = append(parts, comment.ReplaceAllString(line, ""))
		case heading && strings.Trim(level, "#") == "":
			parts = append(parts, level)
		default:
			parts = append(parts, numbers(alike.Replace(line))...)
		}
	}
	return parts
}

// numbers lists the links and the numbers of a line. Numbers lose their separators: English
// and Spanish exchange the comma and the point.
func numbers(line string) []string {
	var found []string
	for _, f := range figures.FindAllString(line, -1) {
		if !strings.HasPrefix(f, "](") {
			f = strings.NewReplacer(",", "", ".", "").Replace(f)
		}
		found = append(found, f)
	}
	return found
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

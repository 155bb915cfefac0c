package batuta_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/batuta-dev/batuta"

// pure are the packages that decide and never do: no clock, no global
// randomness, no operating system, no network, no lock, no logger, no goroutine.
var pure = []string{"election", "election/bully", "election/ring", "internal/core/machine", "internal/core/named", "quorum", "internal/superpeer", "examples/algorithm/franklin", "internal/sim/scenario", "internal/sim/invariant", "internal/sim/trace"}

// mayImport says which packages of the module a package may import; imports run
// one way. A package follows its own line, else that of the nearest directory; without
// one it may import none. A test may import what it likes.
var mayImport = map[string][]string{
	"":                           {"election", "internal/core/machine", "internal/core/named", "internal/net/network", "internal/net/transport", "internal/net/wire", "internal/net/security", "internal/disk/statefile", "internal/disk/datadir", "internal/logqueue", "internal/clock", "internal/disk/logfile", "internal/eventlog", "internal/overdue"},
	"election":                   {},
	"compat/boss":                {"", "election", "internal/net/network", "internal/net/refusal"},
	"election/*":                 {"election"},
	"internal/core/machine":      {"election", "internal/core/roster"},
	"internal/core/roster":       {"election"},
	"quorum":                     {"election", "internal/core/machine"},
	"internal/core/named":        {"election", "internal/core/machine"},
	"internal/sim":               {"election", "internal/core/machine", "internal/core/named", "internal/sim/*"},
	"internal/sim/explore":       {"election", "internal/core/machine", "internal/sim/scenario", "internal/sim/trace", "internal/sim/invariant"},
	"internal/sim/invariant":     {"election", "internal/sim/scenario"},
	"internal/sim/trace":         {"election", "internal/sim/scenario"},
	"internal/sim/scenario":      {"election", "internal/core/machine"},
	"electiontest/*":             {""},
	"electiontest":               {"election", "internal/core/machine", "internal/net/wire", "internal/sim", "internal/sim/*"},
	"internal/superpeer":         {},
	"internal/superpeer/*":       {"internal/superpeer", "internal/superpeer/*"},
	"superpeer":                  {"internal/superpeer", "internal/superpeer/coordinate", "internal/net/security"},
	"internal/*":                 {"", "election", "internal/*"},
	"internal/command/jobs":      {"", "internal/core/named", "election", "internal/command/hooks", "internal/command/run", "internal/command/schedule"},
	"internal/command/peeragent": {"internal/api", "internal/follow", "internal/command/hooks", "superpeer"},
	"internal/disk/datadir":      {},
	"internal/disk/logfile":      {"internal/disk/datadir"},
	"internal/disk/statefile":    {"election", "internal/disk/datadir"},
	"internal/net/wire":          {"election"},
	"internal/net/network":       {"election"},
	"internal/net/security":      {},
	"internal/testkit/memnet":    {"internal/net/transport"},
	"batutahttp":                 {"", "internal/api"},
	"batutaprom":                 {"", "internal/api"},
	"batutatest":                 {"", "election", "election/bully", "internal/testkit/memnet"},
	"internal/net/transport":     {"election", "internal/net/network", "internal/net/wire", "internal/net/refusal"},
	"internal/net/refusal":       {},
	"internal/command/algorithm": {"election", "election/*", "quorum"},
	"internal/lab":               {"internal/web"},
	"internal/lab/*":             {"election", "internal/lab", "internal/command/algorithm", "internal/lab/*", "internal/sim", "internal/sim/*", "internal/superpeer", "internal/superpeer/lab"},
	"internal/web":               {},
	"internal/clock":             {},
	"internal/follow":            {},
	"internal/eventlog":          {},
	"internal/overdue":           {},
	"internal/logqueue":          {},
	"cmd/batuta":                 {"*"},
	"cmd/batuta/*":               {"*"},
	"examples/*":                 {"", "election", "election/*"},
	"engines":                    {"", "election", "internal/clock", "internal/eventlog", "internal/overdue"},
	"engines/*":                  {"", "engines"},
	"engines/internal/*":         {"", "engines", "internal/testkit/freeport"},
	"examples/relay":             {"superpeer"},
	"engines/cmd/*":              {"*"},
	"examples/fencing":           {"", "quorum"},
	"docs/*":                     {"*"},
}

func TestPurity(t *testing.T) {
	for _, dir := range pure {
		for path, file := range sources(t, dir) {
			if strings.Contains(strings.TrimPrefix(path, dir+"/"), "/") {
				continue // a package of its own
			}
			checkPure(t, path, file)
		}
	}
}

func checkPure(t *testing.T, path string, file *ast.File) {
	for _, spec := range file.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		switch first, _, _ := strings.Cut(name, "/"); {
		case name == "net/netip", name == "math/rand/v2": // values; seeded generators
		case first == "os", first == "net", first == "sync", first == "log", first == "syscall", name == "math/rand", name == "crypto/rand":
			t.Errorf("%s imports %s: the core decides, drivers do", path, name)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			t.Errorf("%s starts a goroutine", path)
		case *ast.SelectorExpr:
			pkg, _ := n.X.(*ast.Ident)
			if pkg == nil || pkg.Obj != nil {
				return true
			}
			name := n.Sel.Name
			switch pkg.Name + "." + name {
			case "time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.Tick", "time.NewTimer", "time.NewTicker":
				t.Errorf("%s uses the clock: %s.%s", path, pkg.Name, name)
			}
			if pkg.Name == "rand" && !strings.HasPrefix(name, "New") && name != "PCG" && name != "Rand" && name != "Source" {
				t.Errorf("%s uses global randomness: rand.%s", path, name)
			}
		}
		return true
	})
}

func TestImportsRunOneWay(t *testing.T) {
	for path, file := range sources(t, ".") {
		dir := filepath.ToSlash(filepath.Dir(path))
		if dir == "." {
			dir = ""
		}
		for _, spec := range file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			target, ours := strings.CutPrefix(name, module)
			if !ours {
				continue
			}
			if target = strings.TrimPrefix(target, "/"); !allowed(dir, target) {
				t.Errorf("%s imports %s: imports run cmd → agent, run, hooks → root → machine, transport, statefile → election, algorithms → election", path, name)
			}
		}
	}
}

// A function fits on a screen. A file has one subject; the bars on types and packages are in
// internal/tidy.
const (
	maxFileLines     = 800
	maxFunctionLines = 60
)

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	for path, file := range sources(t, ".") {
		if ast.IsGenerated(file) {
			continue
		}
		lines := func(from, to token.Pos) int { return fileSet.Position(to).Line - fileSet.Position(from).Line + 1 }
		if n := lines(file.FileStart, file.End()); n > maxFileLines {
			t.Errorf("%s has %d lines: part it where its subject does, at %d at most", path, n, maxFileLines)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && lines(f.Pos(), f.End()) > maxFunctionLines {
				t.Errorf("%s: %s has %d lines: at most %d fit on a screen", path, f.Name, lines(f.Pos(), f.End()), maxFunctionLines)
			}
		}
	}
}

// TestWhoImportsBatutaDoesNotCompileMemberlist keeps what super peers alone need out of
// every other package.
func TestWhoImportsBatutaDoesNotCompileMemberlist(t *testing.T) {
	for path, file := range sources(t, ".") {
		for _, spec := range file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			inside := strings.HasPrefix(filepath.ToSlash(path), "superpeer/")
			if strings.HasPrefix(name, "github.com/hashicorp/memberlist") && !inside {
				t.Errorf("%s imports %s: only superpeer may", path, name)
			}
			if strings.HasPrefix(name, module+"/superpeer") && !inside && !overlayUsers(path) {
				t.Errorf("%s imports %s: it would compile memberlist", path, name)
			}
		}
	}
}

// overlayUsers are the commands and examples about super peers.
func overlayUsers(path string) bool {
	dir := filepath.ToSlash(filepath.Dir(path))
	return slices.Contains([]string{"cmd/batuta", "internal/command/peeragent", "examples/relay"}, dir)
}

func allowed(dir, target string) bool {
	targets, listed := mayImport[dir]
	for up := dir; !listed && up != "."; { // by itself, or with everything in a directory
		up = path.Dir(up)
		targets, listed = mayImport[up+"/*"]
	}
	return slices.ContainsFunc(targets, func(to string) bool { return to == "*" || matches(to, target) })
}

func matches(pattern, dir string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(dir, prefix+"/")
	}
	return pattern == dir
}

// fileSet has the lines of what sources parses.
var fileSet = token.NewFileSet()

// sources parses every Go file below dir that is not a test.
func sources(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(fileSet, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		files[path] = file
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// The engines are a module of their own: who uses batuta without them downloads, checks and
// compiles nothing of theirs.
func TestTheEnginesAreAModuleOfTheirOwn(t *testing.T) {
	if _, err := os.Stat("engines/go.mod"); err != nil {
		t.Error(err)
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, engine := range []string{"go.etcd.io/etcd/", "google.golang.org/grpc ", "k8s.io/", "github.com/jackc/"} {
			if strings.Contains(string(text), engine) {
				t.Errorf("%s names %s, which only engines/go.mod may", file, engine)
			}
		}
	}
	for path, file := range sources(t, ".") {
		if strings.HasPrefix(path, "engines/") {
			continue
		}
		for _, spec := range file.Imports {
			if name, _ := strconv.Unquote(spec.Path.Value); strings.HasPrefix(name, module+"/engines") {
				t.Errorf("%s imports %s, which is of another module", path, name)
			}
		}
	}
}

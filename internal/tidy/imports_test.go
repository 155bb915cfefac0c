package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
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
var pure = []string{"election", "election/bully", "election/ring", "internal/core/alarm", "internal/core/attest", "internal/core/attest/oath", "internal/core/codec", "internal/core/detector", "internal/core/epoch", "internal/core/meta", "internal/core/newcomer", "internal/core/outbox", "internal/core/pause", "internal/core/reaper", "internal/core/roster", "internal/core/side", "internal/core/states", "internal/core/tenure", "internal/core/machine", "internal/core/named", "internal/nfc", "quorum", "internal/superpeer", "examples/algorithm/franklin", "internal/sim/scenario", "internal/sim/draw", "internal/sim/invariant", "internal/sim/trace"}

// mayImport says which packages of the module a package may import; imports run
// one way. A package follows its own line, else that of the nearest directory; without
// one it may import none. A test may import what it likes.
var mayImport = map[string][]string{
	// Packages that a service imports.
	"election":              {"internal/nfc"},
	"election/bully":        {"election"},
	"election/ring":         {"election"},
	"quorum":                {"election", "internal/core/attest", "internal/core/codec", "internal/core/epoch", "internal/core/machine", "internal/core/meta", "internal/core/pause", "internal/core/reaper", "internal/core/states"},
	"":                      {"election", "internal/core/attest", "internal/core/machine", "internal/core/meta", "internal/core/named", "internal/core/newcomer", "internal/net/discovery", "internal/net/network", "internal/net/security", "internal/net/transport", "internal/net/wire", "internal/disk/datadir", "internal/disk/logfile", "internal/disk/statefile", "internal/eventlog", "internal/logqueue", "internal/overdue", "internal/clock"},
	"superpeer":             {"internal/eventlog", "internal/superpeer", "internal/superpeer/coordinate", "internal/net/security"},
	"clients/go/internal/*": {"clients/go"},
	"compat/boss":           {"", "election", "internal/net/discovery", "internal/net/network", "internal/net/refusal"},
	"batutahttp":            {"", "internal/api"},
	"batutaprom":            {"", "batutaprom/exposition", "internal/api"},
	"batutaprom/exposition": {"internal/api/metric"},
	"batutacron":            {"", "election", "internal/work/schedule"},
	"batutaguard":           {"internal/work/run"},
	"batutatest":            {"", "election", "election/bully", "internal/eventlog", "internal/testkit/memnet"},
	"electiontest":          {"election", "internal/core/machine", "internal/net/wire", "internal/sim", "internal/sim/*"},
	"electiontest/*":        {""},
	"engines":               {"", "election", "internal/clock", "internal/eventlog", "internal/overdue"},
	"engines/*":             {"", "engines", "engines/internal/record"},
	"adapters/*":            {""},
	"engines/internal/*":    {"", "election", "electiontest/electortest", "engines", "internal/testkit/freeport"},

	// Packages that decide.
	"internal/core/alarm":           {},
	"internal/core/attest":          {"internal/core/attest/oath"},
	"internal/core/attest/oath":     {"election"},
	"internal/core/detector":        {"election"},
	"internal/core/epoch":           {"election"},
	"internal/core/side":            {"election"},
	"internal/core/meta":            {"election"},
	"internal/core/tenure":          {"election"},
	"internal/core/roster":          {"election"},
	"internal/core/newcomer":        {"election"},
	"internal/core/outbox":          {"election"},
	"internal/core/pause":           {"election"},
	"internal/core/machine":         {"election", "internal/core/alarm", "internal/core/detector", "internal/core/epoch", "internal/core/meta", "internal/core/outbox", "internal/core/pause", "internal/core/reaper", "internal/core/roster", "internal/core/side", "internal/core/states", "internal/core/tenure"},
	"internal/core/reaper":          {"election"},
	"internal/core/states":          {"election"},
	"internal/core/named":           {"election", "internal/core/machine", "internal/core/codec", "internal/core/tenure", "internal/nfc"},
	"internal/core/codec":           {},
	"internal/nfc":                  {},
	"internal/superpeer":            {},
	"internal/superpeer/coordinate": {"internal/superpeer"},

	// Packages that a node stands on.
	"internal/net/discovery":  {"election"},
	"internal/net/network":    {"election"},
	"internal/net/wire":       {"election"},
	"internal/net/security":   {},
	"internal/net/refusal":    {},
	"internal/net/transport":  {"election", "internal/core/attest", "internal/net/network", "internal/net/wire", "internal/net/refusal"},
	"internal/disk/datadir":   {},
	"internal/disk/logfile":   {"internal/disk/datadir"},
	"internal/disk/statefile": {"election", "internal/disk/datadir"},
	"internal/clock":          {},
	"internal/eventlog":       {},
	"internal/logqueue":       {},
	"internal/overdue":        {},

	// Packages that stand on nodes: the HTTP API, then what commands are made of, then the commands.
	"internal/web":                  {},
	"internal/follow":               {},
	"internal/api":                  {"", "election", "internal/api/access", "internal/api/candidacy", "internal/api/joblist", "internal/api/journal", "internal/api/metric", "internal/api/reply", "internal/core/meta", "internal/follow", "internal/net/refusal", "internal/net/security", "internal/web"},
	"internal/api/access":           {"internal/core/named", "internal/net/security"},
	"internal/api/candidacy":        {"", "internal/api/metric", "internal/api/reply", "internal/net/refusal"},
	"internal/api/joblist":          {"internal/api/metric", "internal/api/reply"},
	"internal/api/journal":          {},
	"internal/api/metric":           {},
	"internal/api/reply":            {"internal/web"},
	"internal/command/algorithm":    {"election", "election/bully", "election/ring", "quorum"},
	"internal/command/ask":          {"", "election", "internal/api", "internal/api/access", "internal/api/joblist", "internal/command/cli", "internal/command/explain", "internal/work/jobs", "internal/command/lock", "internal/net/security", "quorum"},
	"internal/command/checking":     {"election", "internal/api", "internal/command/cli", "internal/disk/datadir", "internal/disk/logfile", "internal/disk/statefile", "internal/net/discovery", "internal/net/security", "internal/net/transport", "internal/net/wire"},
	"internal/command/cli":          {"election", "internal/api", "internal/api/access", "internal/work/hooks", "internal/work/schedule", "internal/core/named", "internal/disk/datadir", "internal/logqueue"},
	"internal/command/explain":      {"", "internal/api"},
	"internal/command/floor":        {"internal/disk/datadir"},
	"internal/work/hooks":           {"", "election", "internal/work/run", "internal/follow"},
	"internal/command/initial":      {"election", "internal/api", "internal/command/cli", "internal/net/security"},
	"internal/work/jobs":            {"", "election", "internal/core/meta", "internal/core/named", "internal/api/joblist", "internal/follow", "internal/work/hooks", "internal/work/run", "internal/work/schedule"},
	"internal/command/lock":         {"", "internal/api", "internal/api/candidacy", "internal/command/cli", "internal/work/run"},
	"cmd/batuta/internal/peeragent": {"superpeer", "batutaprom/exposition", "internal/api", "internal/api/access", "internal/api/reply", "internal/work/hooks", "internal/follow"},
	"internal/command/podlabel":     {"", "election", "internal/command/cli"},
	"internal/command/recovery":     {"election", "internal/command/cli", "internal/disk/datadir", "internal/disk/logfile", "quorum"},
	"internal/command/resident":     {},
	"internal/work/run":             {"", "election", "internal/clock", "internal/work/schedule", "internal/work/systemd", "internal/core/attest", "internal/net/transport"},
	"internal/work/run/*":           {},
	"internal/work/schedule":        {"", "election"},
	"cmd/batuta/internal/simulate":  {"election", "election/ring", "superpeer", "internal/command/algorithm", "internal/command/cli", "internal/command/lab", "internal/sim", "internal/sim/*", "internal/superpeer", "internal/superpeer/lab", "cmd/batuta/internal/live"},
	"internal/work/systemd":         {},
	"internal/command/vip":          {},
	"cmd/batuta":                    {"*"},
	"cmd/batuta/*":                  {"*"},
	"engines/cmd/*":                 {"*"},

	// Packages that play it all in virtual time.
	"internal/sim/scenario":    {"election", "internal/core/machine"},
	"internal/sim/invariant":   {"election", "internal/sim/scenario"},
	"internal/sim/trace":       {"election", "internal/sim/scenario"},
	"internal/sim/draw":        {"election", "internal/sim/scenario"},
	"internal/sim/explore":     {"election", "internal/core/machine", "internal/sim/scenario", "internal/sim/trace", "internal/sim/invariant"},
	"internal/sim":             {"election", "internal/core/attest/oath", "internal/core/machine", "internal/core/named", "internal/core/newcomer", "internal/sim/*"},
	"superpeer/superpeertest":  {},
	"internal/superpeer/lab":   {"internal/superpeer", "internal/superpeer/coordinate"},
	"cmd/batuta/internal/live": {"superpeer", "internal/superpeer", "superpeer/superpeertest", "internal/superpeer/lab"},
	"internal/command/lab":     {"internal/web"},
	"internal/command/lab/*":   {"election", "internal/command/lab", "internal/command/algorithm", "internal/command/lab/*", "internal/sim", "internal/sim/*", "internal/superpeer", "internal/superpeer/lab"},

	// Tests and examples.
	"internal/testkit/browsertest": {},
	"internal/testkit/freeport":    {},
	"internal/testkit/fulltest":    {},
	"internal/testkit/leaktest":    {},
	"internal/testkit/memnet":      {"internal/net/network", "internal/net/transport"},
	"internal/testkit/mutant":      {},
	"internal/testkit/nodetest":    {"", "batutatest"},
	"internal/testkit/page":        {},
	"internal/testkit/buildtest":   {},
	"internal/testkit/stalltest":   {"internal/clock"},
	"internal/testkit/tcpnet":      {"internal/net/transport", "internal/testkit/freeport"},
	"internal/tidy":                {},
	"examples/*":                   {"", "election", "election/*"},
	"superpeer/examples/*":         {"superpeer"},
	"examples/fencing":             {"", "quorum"},
	"examples/redirect":            {"", "election/*", "batutahttp"},
	"docs/*":                       {"*"},
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
				t.Errorf("%s imports %s: imports run cmd → internal/command → internal/work → internal/api → the root → internal/core, net and disk → election", path, name)
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
			if strings.HasPrefix(name, "github.com/hashicorp/memberlist") && !strings.HasPrefix(path, "superpeer/") {
				t.Errorf("%s imports %s: only superpeer and its network in memory may", path, name)
			}
			if strings.HasPrefix(name, module+"/superpeer") && !strings.HasPrefix(path, "superpeer/") && !strings.HasPrefix(path, "cmd/batuta/") {
				t.Errorf("%s imports %s: it would compile memberlist", path, name)
			}
		}
	}
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

// TestAnExampleCanBeCopied: a stranger who takes an example into a module of their own can import no internal package.
// The tests in examples itself, and those of fencing, play real processes and need the kits.
func TestAnExampleCanBeCopied(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		example := strings.HasPrefix(path, "examples/") && filepath.Dir(path) != "examples" && strings.HasSuffix(path, ".go") || filepath.Base(path) == "example_test.go"
		if err != nil || !example || strings.HasPrefix(path, "internal/") || strings.HasPrefix(path, "examples/fencing/") && strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(fileSet, path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			if name, _ := strconv.Unquote(spec.Path.Value); strings.HasPrefix(name, module+"/internal/") {
				t.Errorf("%s imports %s, which only this module may", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

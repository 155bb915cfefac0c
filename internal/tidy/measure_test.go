package tidy

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A room is the source of one package, without its tests.
type room struct {
	dir    string // below the root of the repository, with slashes
	module string // the directory of its module; "the module" is the main module
	files  map[string]*ast.File
	set    *token.FileSet
	words  comments
	lines  int
}

// measure gives every figure of the tree that a bar is about, of all modules.
func measure(t *testing.T, root string) map[figure]float64 {
	t.Helper()
	figures := map[figure]float64{}
	module := func(bar string) figure { return figure{bar, "the module"} }
	var small comments
	for _, r := range rooms(t, root) {
		for bar, rate := range r.words.rates() {
			figures[figure{bar, cmp.Or(strings.TrimPrefix(r.dir, "."), "batuta")}] = rate
		}
		if r.words.all < fewWords {
			small.add(r.words)
		}
		name := r.dir
		if name == "." {
			name = "batuta"
			figures[module("root")] = float64(len(r.files))
		}
		if r.public() && r.module == "the module" {
			figures[module("public")]++
		}
		if !r.kit() {
			figures[figure{"lines", r.module}] += float64(r.lines)
		}
		figures[figure{"files", name}] = float64(len(r.files))
		figures[figure{"loop", name}] = float64(r.loop())
		for of, n := range r.methods() {
			figures[figure{"methods", name + "." + of}] = float64(n)
		}
	}
	for bar, rate := range small.rates() {
		figures[figure{bar, "the packages with few comments"}] = rate
	}
	return figures
}

// rooms parses every package of the repository.
func rooms(t *testing.T, root string) []*room {
	t.Helper()
	found, modules := map[string]*room{}, []string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, file)
		if rel = filepath.ToSlash(rel); d.IsDir() {
			if d.Name() == "testdata" || d.Name() == "node_modules" || rel != "." && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && rel != "." {
				modules = append(modules, rel+"/")
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		dir := path.Dir(rel)
		if found[dir] == nil {
			module := "the module"
			for _, m := range modules { // those below another come after it
				if strings.HasPrefix(rel, m) {
					module = strings.TrimSuffix(m, "/")
				}
			}
			found[dir] = &room{dir: dir, module: module, files: map[string]*ast.File{}, set: token.NewFileSet()}
		}
		return found[dir].add(path.Base(rel), file)
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []*room
	for _, r := range found {
		list = append(list, r)
	}
	return list
}

func (r *room) add(name, file string) error {
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(r.set, file, source, parser.ParseComments)
	if err != nil || ast.IsGenerated(parsed) {
		return err
	}
	r.files[name] = parsed
	r.lines += bytes.Count(source, []byte{'\n'})
	for _, group := range parsed.Comments {
		r.words.count(group.Text())
	}
	return nil
}

// public reports whether a module outside of this one can import the package.
func (r *room) public() bool {
	for _, f := range r.files {
		if f.Name.Name == "main" {
			return false
		}
	}
	return !slices.Contains(strings.Split(r.dir, "/"), "internal")
}

// kits are what tests alone import.
var kits = []string{"internal/testkit", "internal/work/run/runtest", "compat/boss/internal/original", "batutatest", "electiontest"}

// kit reports whether the package counts as a test.
func (r *room) kit() bool {
	return slices.ContainsFunc(kits, func(dir string) bool { return r.dir == dir || strings.HasPrefix(r.dir, dir+"/") })
}

// methods counts those of each type.
func (r *room) methods() map[string]int {
	count := map[string]int{}
	for _, f := range r.files {
		for _, d := range f.Decls {
			if of := receiver(d); of != "" {
				count[of]++
			}
		}
	}
	return count
}

// receiver names the type that a declaration is a method of.
func receiver(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// loop gives how many files of the package call each other in a circle, the largest such
// set. It goes by names: a call of a method counts for every file of the package that
// declares a method of that name, unless more than one type has it. A field or a variable of that name is no
// call, nor is an exported name of what an imported package gives.
func (r *room) loop() int {
	declared := map[string][]string{} // where each function and method is
	for name, f := range r.files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				declared[fn.Name.Name] = append(declared[fn.Name.Name], name)
			}
		}
	}
	is := r.names()
	calls := map[string]map[string]bool{}
	for name, f := range r.files {
		calls[name] = map[string]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok {
					_, imported := is(of).(*types.PkgName)
					return !imported
				}
			case *ast.Ident:
				_, function := is(n).(*types.Func)
				own := function || is(n) == nil && !n.IsExported() && n != f.Name
				if own && len(declared[n.Name]) == 1 {
					calls[name][declared[n.Name][0]] = true
				}
			}
			return true
		})
	}
	return largestCircle(calls)
}

// names gives what each name of the package is, as far as its own files show: nil where that takes an
// imported package, of which none is read.
func (r *room) names() func(*ast.Ident) types.Object {
	info := types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	check := types.Config{Error: func(error) {}} // what is imported is missing
	var files []*ast.File
	for _, name := range slices.Sorted(maps.Keys(r.files)) { // in their order, since systems declare the same names
		files = append(files, r.files[name])
	}
	check.Check(r.dir, r.set, files, &info)
	return info.ObjectOf
}

// largestCircle gives the size of the largest set of which each reaches each; 0 where there is none.
func largestCircle(calls map[string]map[string]bool) int {
	reach := map[string]map[string]bool{}
	for from := range calls {
		seen, next := map[string]bool{}, []string{from}
		for len(next) > 0 {
			at := next[0]
			next = next[1:]
			for to := range calls[at] {
				if !seen[to] {
					seen[to] = true
					next = append(next, to)
				}
			}
		}
		reach[from] = seen
	}
	largest := 0
	for a := range reach {
		n := 0
		for b := range reach {
			if a == b || reach[a][b] && reach[b][a] {
				n++
			}
		}
		if n > 1 {
			largest = max(largest, n)
		}
	}
	return largest
}

// comments counts words of comments, and those among them that hide the subject.
type comments struct{ all, who, tell, one int }

var (
	word = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)
	who  = regexp.MustCompile(`(?i)\b(who|whom|whose|whoever|whomever)\b`)
	tell = regexp.MustCompile(`(?i)\b(tells?|telling|told|says?|saying|said|hears?|hearing|heard|words?)\b`)
	one  = regexp.MustCompile(`(?i)\b(one|ones|another|others?|nobody)\b`)
)

func (c *comments) count(text string) {
	for _, p := range []struct {
		n  *int
		of *regexp.Regexp
	}{{&c.all, word}, {&c.who, who}, {&c.tell, tell}, {&c.one, one}} {
		*p.n += len(p.of.FindAllString(text, -1))
	}
}

func (c *comments) add(o comments) {
	c.all, c.who, c.tell, c.one = c.all+o.all, c.who+o.who, c.tell+o.tell, c.one+o.one
}

// fewWords are too few for a rate: such packages are counted together.
const fewWords = 200

// rates gives the words of each bar in 1,000, to one decimal; none where there is little to count.
func (c *comments) rates() map[string]float64 {
	if c.all < fewWords {
		return nil
	}
	rate := func(n int) float64 { return math.Round(float64(n)*10_000/float64(c.all)) / 10 }
	return map[string]float64{"who": rate(c.who), "tell": rate(c.tell), "one": rate(c.one)}
}

package mutant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// chosen is the environment variable that selects the mutant of a joined program.
const chosen = "BATUTA_MUTANT"

// Joined is many mutants in a single program, which needs a single compilation. It contains each
// changed function in its original form and in the form of each mutant. The environment selects
// the form when the program starts. A mutant that changes more than function bodies gets its own
// program.
type Joined struct {
	root, dir, overlay string

	joined map[string]bool // by the mutant's name
	mu     sync.Mutex
	builds map[string]func() (string, error) // by the package under test
}

// Join writes the joined source of mutants below root, and its builds, to dir.
func Join(root, dir string, mutants []Mutant) (*Joined, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	j := &Joined{root: root, dir: dir, overlay: filepath.Join(dir, "joined.json"), joined: map[string]bool{}, builds: map[string]func() (string, error){}}
	byFile, replace := map[string][]Mutant{}, map[string]string{}
	for _, m := range mutants {
		byFile[m.File] = append(byFile[m.File], m)
	}
	add := func(name string, text []byte) error { // name is below root
		changed := filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		replace[filepath.Join(root, filepath.FromSlash(name))] = changed
		return os.WriteFile(changed, text, 0o600)
	}
	selectors := map[string]bool{} // files that read the environment, a file per package
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		text, pkg, err := j.join(file, byFile[file])
		if err != nil {
			return nil, err
		}
		selector := path.Join(path.Dir(file), "mutant_chosen.go")
		if !selectors[selector] {
			selectors[selector] = true
			text := "package " + pkg + "\n\nimport \"os\"\n\nvar mutantChosen = os.Getenv(\"" + chosen + "\")\n"
			if err := add(selector, []byte(text)); err != nil {
				return nil, err
			}
		}
		if err := add(file, text); err != nil {
			return nil, err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	return j, errors.Join(err, os.WriteFile(j.overlay, list, 0o600))
}

// Command returns the tests of a package with m in place, to run in the package's directory. pkg
// is a path below the root such as ./internal/sim. The zero Mutant changes nothing.
func (j *Joined) Command(ctx context.Context, m Mutant, pkg string, flags ...string) (*exec.Cmd, error) {
	none := m.Name == ""
	var binary string
	var err error
	if none || j.joined[m.Name] {
		binary, err = j.build(pkg)
	}
	if binary == "" && !none { // also if a different mutant does not compile
		binary, err = j.buildAlone(ctx, m, pkg)
	}
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, flags...)
	cmd.Dir = filepath.Join(j.root, pkg)
	cmd.Env = append(os.Environ(), chosen+"="+m.Name)
	return cmd, nil
}

// build compiles the joined tests of a package, once.
func (j *Joined) build(pkg string) (string, error) {
	j.mu.Lock()
	build := j.builds[pkg]
	if build == nil {
		build = sync.OnceValues(func() (string, error) {
			dir, err := os.MkdirTemp(j.dir, "joined")
			if err != nil {
				return "", err
			}
			return Build(context.Background(), j.root, j.overlay, pkg, dir)
		})
		j.builds[pkg] = build
	}
	j.mu.Unlock()
	return build()
}

func (j *Joined) buildAlone(ctx context.Context, m Mutant, pkg string) (string, error) {
	dir, err := os.MkdirTemp(j.dir, "alone")
	if err != nil {
		return "", err
	}
	overlay, err := m.Overlay(j.root, dir)
	if err != nil {
		return "", err
	}
	return Build(ctx, j.root, overlay, pkg, dir)
}

// join returns a file's source with all of its mutants, and its package's name.
func (j *Joined) join(file string, mutants []Mutant) ([]byte, string, error) {
	was, err := os.ReadFile(filepath.Join(j.root, filepath.FromSlash(file)))
	if err != nil {
		return nil, "", err
	}
	source, err := parse(was)
	if err != nil {
		return nil, "", err
	}
	variants := make([]map[string]string, len(source.Decls)) // of each declaration, by mutant
	for _, m := range mutants {
		text, err := m.change(was)
		if err != nil {
			return nil, "", err
		}
		changed, err := parse(text)
		if err != nil {
			return nil, "", fmt.Errorf("mutant %q: %w", m.Name, err)
		}
		at := source.differs(changed)
		for _, i := range at {
			if variants[i] == nil {
				variants[i] = map[string]string{}
			}
			variants[i][m.Name] = changed.text(changed.Decls[i])
		}
		j.joined[m.Name] = at != nil
	}
	var out bytes.Buffer
	end := 0
	for i, decl := range source.Decls {
		if variants[i] == nil {
			continue
		}
		out.Write(was[end:source.at(decl.Pos())])
		source.dispatch(&out, decl.(*ast.FuncDecl), variants[i])
		end = source.at(decl.End())
	}
	out.Write(was[end:])
	return out.Bytes(), source.Name.Name, nil
}

// parsed is a version of a file.
type parsed struct {
	*ast.File
	fset   *token.FileSet
	source []byte
}

func parse(source []byte) (parsed, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", source, parser.SkipObjectResolution)
	return parsed{f, fset, source}, err
}

func (p parsed) at(pos token.Pos) int { return p.fset.Position(pos).Offset }

// text returns the source of n, without its comment.
func (p parsed) text(n ast.Node) string { return string(p.source[p.at(n.Pos()):p.at(n.End())]) }

// differs returns the declarations that changed has in a different form. It returns nil unless
// all of them are functions that differ only in their bodies.
func (p parsed) differs(changed parsed) (at []int) {
	if len(p.Decls) != len(changed.Decls) {
		return nil
	}
	for i, was := range p.Decls {
		is := changed.Decls[i]
		if p.text(was) == changed.text(is) {
			continue
		}
		before, ok := was.(*ast.FuncDecl)
		after, also := is.(*ast.FuncDecl)
		if !ok || !also || before.Type.TypeParams != nil || p.head(before) != changed.head(after) {
			return nil
		}
		at = append(at, i)
	}
	return at
}

// head returns a function's source up to its body.
func (p parsed) head(f *ast.FuncDecl) string {
	return string(p.source[p.at(f.Pos()):p.at(f.Body.Lbrace)])
}

// dispatch writes f as a function that calls the original or the chosen mutant.
func (p parsed) dispatch(out *bytes.Buffer, f *ast.FuncDecl, variants map[string]string) {
	receiver, call := "", ""
	if f.Recv != nil {
		receiver, call = "(mutantOf "+p.text(f.Recv.List[0].Type)+") ", "mutantOf."
	}
	results := ""
	if f.Type.Results != nil {
		results, call = p.text(f.Type.Results), "return "+call
	}
	var params, args []string
	for _, field := range f.Type.Params.List {
		for range max(1, len(field.Names)) {
			name := "p" + strconv.Itoa(len(params))
			params = append(params, name+" "+p.text(field.Type))
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			args = append(args, name)
		}
	}
	calls := func(name string) string { return call + name + "(" + strings.Join(args, ", ") + ")\n" }
	rename := func(text string, name string) string { // all heads are the same
		at := p.at(f.Name.Pos()) - p.at(f.Pos())
		return text[:at] + name + text[at+len(f.Name.Name):] + "\n\n"
	}
	var functions strings.Builder
	fmt.Fprintf(out, "func %s%s(%s) %s {\nswitch mutantChosen {\n", receiver, f.Name.Name, strings.Join(params, ", "), results)
	for i, mutant := range slices.Sorted(maps.Keys(variants)) {
		name := fmt.Sprintf("%s_mutant%d", f.Name.Name, i+1)
		fmt.Fprintf(out, "case %q:\n%s", mutant, calls(name))
		functions.WriteString(rename(variants[mutant], name))
	}
	name := f.Name.Name + "_mutant0"
	fmt.Fprintf(out, "default:\n%s}\n}\n\n%s%s", calls(name), rename(p.text(f), name), functions.String())
}

package tidy

import (
	"bytes"
	"flag"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update-api", false, "write docs/api.txt as the packages are now")

// publicPackages are those whose names docs/stability.md promises to keep.
var publicPackages = []string{".", "batutacron", "batutaguard", "batutahttp", "batutaprom", "batutatest", "election", "election/bully", "election/ring", "quorum",
	"electiontest", "electiontest/electortest", "superpeer", "compat/boss", "engines", "engines/consul", "engines/etcd", "engines/kubernetes", "engines/mysql", "engines/nats",
	"engines/postgres", "engines/redis", "engines/s3"}

// A release keeps each line of the list, as docs/stability.md promises. A change of the list is read in review.
func TestTheAPIIsAsRecorded(t *testing.T) {
	const list = "docs/api.txt"
	now := map[string]bool{}
	for _, dir := range publicPackages {
		for _, line := range exported(t, dir) {
			now[line] = true
		}
	}
	lines := []string{}
	for line := range now {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	if *updateAPI {
		if err := os.WriteFile(list, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		recorded[strings.TrimSuffix(line, "\n")] = true
	}
	for _, line := range lines {
		if !recorded[line] {
			t.Errorf("new, or changed: %s", line)
		}
	}
	for line := range recorded {
		if !now[line] {
			t.Errorf("gone, or changed, which breaks users: %s", line)
		}
	}
	if t.Failed() {
		t.Log("if that is meant, record it: go test ./internal/tidy -run TestTheAPIIsAsRecorded -update-api; and write it into CHANGELOG.md")
	}
}

// exported has a line for each exported name of a package, method and field, with its type.
func exported(t *testing.T, dir string) (lines []string) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if source(e) {
			file, err := parser.ParseFile(fset, filepath.Join(dir, e.Name()), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
	}
	p, err := doc.NewFromFiles(fset, files, path.Join(module, dir))
	if err != nil {
		t.Fatal(err)
	}
	add := func(parts ...any) {
		line := path.Join("batuta", dir) + ": "
		for _, part := range parts {
			line += shown(fset, part)
		}
		lines = append(lines, line)
	}
	values := func(all []*doc.Value) {
		for _, v := range all {
			for _, spec := range v.Decl.Specs {
				spec := spec.(*ast.ValueSpec)
				for i, name := range spec.Names {
					if ast.IsExported(name.Name) {
						add(v.Decl.Tok.String(), " ", name.Name)
						if spec.Type != nil {
							lines[len(lines)-1] += " " + shown(fset, spec.Type)
						}
						if v.Decl.Tok == token.CONST && i < len(spec.Values) {
							lines[len(lines)-1] += " = " + shown(fset, spec.Values[i])
						}
					}
				}
			}
		}
	}
	functions := func(all []*doc.Func) {
		for _, f := range all {
			f.Decl.Body, f.Decl.Doc = nil, nil
			add(f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	functions(p.Funcs)
	for _, typ := range p.Types {
		values(typ.Consts)
		values(typ.Vars)
		functions(typ.Funcs)
		functions(typ.Methods)
		for _, spec := range typ.Decl.Specs {
			declared(spec.(*ast.TypeSpec), add)
		}
	}
	return lines
}

// declared adds a type, and its exported fields or the methods of an interface.
func declared(spec *ast.TypeSpec, add func(parts ...any)) {
	head := "type " + spec.Name.Name
	if spec.Assign.IsValid() {
		head += " ="
	}
	var members *ast.FieldList
	switch of := spec.Type.(type) {
	case *ast.StructType:
		members = of.Fields
		head += " struct"
	case *ast.InterfaceType:
		members = of.Methods
		head += " interface"
	default:
		add(head, " ", spec.Type)
		return
	}
	add(head)
	for _, f := range members.List {
		if len(f.Names) == 0 {
			add(head, ", ", f.Type)
		}
		for _, name := range f.Names {
			if ast.IsExported(name.Name) {
				add(head, ", ", name.Name, " ", f.Type)
			}
		}
	}
}

var space = regexp.MustCompile(`\s+`)

// shown is a part of a declaration on one line.
func shown(fset *token.FileSet, part any) string {
	if text, ok := part.(string); ok {
		return text
	}
	var b bytes.Buffer
	printer.Fprint(&b, fset, part)
	return space.ReplaceAllString(b.String(), " ")
}

func source(e fs.DirEntry) bool {
	name := e.Name()
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "_windows") && !strings.Contains(name, "_darwin")
}

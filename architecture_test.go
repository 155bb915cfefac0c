package batuta_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
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

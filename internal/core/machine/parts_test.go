package machine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A Machine is made of parts, and each owns its fields: the file that declares it alone
// writes them. The others read them, or ask for a change by a method.
func TestPartsOwnTheirFields(t *testing.T) {
	fileSet := token.NewFileSet()
	files := map[string]*ast.File{}
	paths, err := filepath.Glob("*.go")
	for _, path := range paths {
		if !strings.HasSuffix(path, "_test.go") && err == nil {
			files[path], err = parser.ParseFile(fileSet, path, nil, 0)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	home := map[string]string{} // the file of each field, by its name
	machine := reflect.TypeFor[Machine]()
	for i := range machine.NumField() {
		part := machine.Field(i)
		if !part.Anonymous {
			home[part.Name] = "machine.go"
			continue
		}
		for j := range part.Type.NumField() {
			home[part.Type.Field(j).Name] = declares(files, part.Name)
		}
	}
	for name, file := range files {
		for _, field := range written(file) {
			if owner, ok := home[field.Sel.Name]; ok && owner != name {
				t.Errorf("%v writes %s, which is %s's", fileSet.Position(field.Pos()), field.Sel.Name, owner)
			}
		}
	}
}

// declares gives the file that declares a type.
func declares(files map[string]*ast.File, name string) (in string) {
	for path, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == name {
				in = path
			}
			return true
		})
	}
	return in
}

// written are the fields of a Machine, or of a part that has the receiver's name, to
// which a file assigns.
func written(file *ast.File) (fields []*ast.SelectorExpr) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil || len(f.Recv.List[0].Names) == 0 {
			continue
		}
		self := f.Recv.List[0].Names[0].Name
		ast.Inspect(f, func(n ast.Node) bool {
			var to []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				to = n.Lhs
			case *ast.IncDecStmt:
				to = []ast.Expr{n.X}
			}
			for _, e := range to {
				if s, ok := e.(*ast.SelectorExpr); ok {
					if id, ok := s.X.(*ast.Ident); ok && id.Name == self {
						fields = append(fields, s)
					}
				}
			}
			return true
		})
	}
	return fields
}

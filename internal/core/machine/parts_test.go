package machine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// stack gives the parts of a Machine, the lowest first: each has the one below as its first field.
func stack() (parts []reflect.Type) {
	for part := reflect.TypeFor[Machine](); ; part = part.Field(0).Type {
		parts = append([]reflect.Type{part}, parts...)
		if part == reflect.TypeFor[ground]() {
			return parts
		}
	}
}

// A part calls those below it, and can reach none above: it is held by value, and has no pointer,
// interface or function that may lead to one.
func TestNoPartReachesOneAboveIt(t *testing.T) {
	for _, part := range stack() {
		for i := range part.NumField() {
			f := part.Field(i)
			if slices.Contains(stack(), f.Type) {
				continue // the part below
			}
			if leads := leadsOut(f.Type, map[reflect.Type]bool{}); leads != nil && f.Type != reflect.TypeFor[election.Algorithm]() {
				t.Errorf("%s.%s may lead to a part above: it has a %v", part.Name(), f.Name, leads)
			}
		}
	}
	if n := len(stack()); n < 9 {
		t.Errorf("a Machine has %d parts", n)
	}
}

// leadsOut gives a type, within another, that may hold a part.
func leadsOut(of reflect.Type, seen map[reflect.Type]bool) reflect.Type {
	if seen[of] || of == reflect.TypeFor[time.Time]() || of == reflect.TypeFor[func(election.Record)]() || of == reflect.TypeFor[Config]() {
		return nil
	}
	seen[of] = true
	switch of.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return of
	case reflect.Interface:
		if of != reflect.TypeFor[error]() {
			return of
		}
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return leadsOut(of.Elem(), seen)
	case reflect.Struct:
		for i := range of.NumField() {
			if leads := leadsOut(of.Field(i).Type, seen); leads != nil {
				return leads
			}
		}
	}
	return nil
}

// The field of a part is written by the methods of a single part. The others read it, or ask for a
// change by a method.
func TestOnePartWritesAField(t *testing.T) {
	fields := map[string]bool{}
	names := map[string]bool{}
	for _, part := range stack() {
		names[part.Name()] = true
		for i := range part.NumField() {
			if f := part.Field(i); f.Anonymous && !names[f.Name] {
				for j := range f.Type.NumField() {
					fields[f.Type.Field(j).Name] = true
				}
			} else if !f.Anonymous {
				fields[f.Name] = true
			}
		}
	}
	writers := map[string]map[string]bool{}
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || len(f.Recv.List[0].Names) == 0 {
				continue
			}
			of, ok := f.Recv.List[0].Type.(*ast.StarExpr)
			if !ok || !names[of.X.(*ast.Ident).Name] {
				continue
			}
			for _, field := range written(f) {
				if fields[field] {
					if writers[field] == nil {
						writers[field] = map[string]bool{}
					}
					writers[field][of.X.(*ast.Ident).Name] = true
				}
			}
		}
	}
	for field, parts := range writers {
		if len(parts) > 1 {
			t.Errorf("%s is written by %v", field, parts)
		}
	}
}

// written are the fields of its receiver to which a method assigns.
func written(f *ast.FuncDecl) (fields []string) {
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
					fields = append(fields, s.Sel.Name)
				}
			}
		}
		return true
	})
	return fields
}

package candidacy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// The bounds of candidacies are measured by the monotonic clock: no time loses its reading of that, so a date that is
// set back extends nothing.
func TestBoundsDoNotDependOnTheDate(t *testing.T) {
	strips := []string{"Round", "Truncate", "UTC", "Local", "In", "AddDate", "Unix", "UnixMilli", "UnixMicro", "UnixNano"}
	clocks := 0
	for _, name := range []string{"desk.go", "http.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if slices.Contains(strips, s.Sel.Name) {
					t.Errorf("%s: %s drops the monotonic reading of a time", name, s.Sel.Name)
				}
				if s.Sel.Name == "Now" {
					clocks++
				}
			}
			return true
		})
	}
	if clocks == 0 {
		t.Error("no clock is read")
	}
}

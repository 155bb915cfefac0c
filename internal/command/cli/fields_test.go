package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// libraryText is the sources that a service compiles: its users read their texts. The engines'
// commands and the kits for tests are not among them.
var libraryText = regexp.MustCompile(`^(\w+\.go|(election|quorum|superpeer|batutahttp|batutaprom|compat|internal/(core|net|disk|clock|overdue|eventlog)|engines/(etcd|kubernetes|postgres))/.*|engines/\w+\.go)$`)

var (
	nameOfAFlag  = regexp.MustCompile(`(^|[\s("'=])--[a-z]`)
	nameOfAField = regexp.MustCompile(`\b(Config|quorum)\.[A-Z]\w+`)
)

// A service has no flags: texts of the library name fields. Commands show the flags in their place.
func TestTheLibraryNamesFieldsAndTheCommandsFlags(t *testing.T) {
	fields := 0
	root := os.DirFS("../../..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || !libraryText.MatchString(name) {
			return err
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, _ := strconv.Unquote(literal.Value)
				if nameOfAFlag.MatchString(text) {
					t.Errorf("%s names a flag, which a service does not have: %s", name, text)
				}
				if nameOfAField.MatchString(text) {
					fields++
					if shown := Flags(text); nameOfAField.MatchString(shown) || !nameOfAFlag.MatchString(shown) {
						t.Errorf("%s: a command shows %q: it needs the flag in fieldFlags", name, shown)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if fields < 15 {
		t.Errorf("%d texts name a field: the test looks in the wrong place", fields)
	}
}

package tidy

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"testing"

	"github.com/batuta-dev/batuta/internal/command/cli"
)

// libraryText is all that a service compiles, whose texts its users read. The engines' commands
// and the kits for tests are not among it.
var libraryText = regexp.MustCompile(`^(\w+\.go|(election|quorum|superpeer|batutahttp|batutaprom|compat|internal/(core|net|disk|clock|overdue|eventlog)|engines/(etcd|kubernetes|postgres))/.*|engines/\w+\.go)$`)

var (
	nameOfAFlag  = regexp.MustCompile(`(^|[\s("'=])--[a-z]`)
	nameOfAField = regexp.MustCompile(`\b(Config|quorum)\.[A-Z]\w+`)
)

// A service has no flags: texts of the library name fields. Commands show the flags in their place.
func TestTheLibraryNamesFieldsAndTheCommandsFlags(t *testing.T) {
	fields := 0
	for path, file := range sources(t, ".") {
		if !libraryText.MatchString(path) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(literal.Value)
			if nameOfAFlag.MatchString(text) {
				t.Errorf("%s names a flag, which a service does not have: %s", path, text)
			}
			if nameOfAField.MatchString(text) {
				fields++
				if shown := cli.Flags(text); nameOfAField.MatchString(shown) || !nameOfAFlag.MatchString(shown) {
					t.Errorf("%s: a command shows %q: it needs the flag in internal/command/cli/flags.go", path, shown)
				}
			}
			return true
		})
	}
	if fields < 15 {
		t.Errorf("%d texts name a field: the test looks in the wrong place", fields)
	}
}

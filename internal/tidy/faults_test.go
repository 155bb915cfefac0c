package tidy

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// faulty is the source of what the lab shows of a scenario or super peers that cannot be, or of an expectation that fails,
// and faultMakers are the functions that make its texts.
var (
	faulty      = regexp.MustCompile(`^(internal/sim/((scenario|invariant|explore)/\w+|judge|play|process|rules\w*|world)|internal/superpeer/(config|serve|lab/(churn|run))|internal/command/algorithm/algorithm|election/(timing|id))\.go$`)
	faultMakers = []string{"Errorf", "New", "fault", "next", "duration", "number", "text", "Sprintf", "compare", "Unmet", "fail", "broken", "unled"}
	faultWord   = regexp.MustCompile(`(^|[^%a-z])[a-z]{2}`)
	faultEntry  = regexp.MustCompile(`(?:^  |[{,] )'((?:[^'\\]|\\.)+)': '`)
)

// TestFaultsAreInSpanish has the lab's table in Spanish hold each text of a fault, and no other.
func TestFaultsAreInSpanish(t *testing.T) {
	const file = "internal/web/lab/faults.js"
	table, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	inSpanish := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		for _, entry := range faultEntry.FindAllStringSubmatch(line, -1) {
			inSpanish[strings.ReplaceAll(entry[1], `\'`, `'`)] = false
		}
	}
	found := func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, _ := strconv.Unquote(lit.Value)
		if _, listed := inSpanish[text]; listed {
			inSpanish[text] = true
		} else if strings.Contains(text, " ") && text == strings.TrimSpace(text) && faultWord.MatchString(text) {
			t.Errorf("%s has no Spanish for %q", file, text)
		}
		return true
	}
	for name, parsed := range sources(t, ".") {
		if !faulty.MatchString(name) {
			continue
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if slices.Contains(faultMakers, called(n)) {
					for _, arg := range n.Args {
						found(arg)
					}
				}
			case *ast.GenDecl:
				if n.Tok == token.CONST && parsed.Name.Name == "invariant" { // the rules
					ast.Inspect(n, found)
				}
			case *ast.ReturnStmt:
				ast.Inspect(n, func(n ast.Node) bool { _, call := n.(*ast.CallExpr); return !call && found(n) })
			}
			return true
		})
	}
	for text, occurs := range inSpanish {
		if !occurs {
			t.Errorf("%s has Spanish for %q, which no fault has any more", file, text)
		}
	}
}

// called is the name of the function that is called.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

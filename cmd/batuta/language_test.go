package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// avoided are words that the glossary replaces, in texts that the commands print.
var avoided = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	"who", "whom", "whose", "whoever", "nobody", "somebody", "everybody", // a member is a thing: no member
	"tells?", "told", "telling", "says?", "said", "saying", "hears?", "heard", "hearing", // publish, report, receive
	"the lead", "leads no more", "stands? for", "stood for", "makes? way", "aside", // leadership, is a candidate, yield
	"contests?", "heirs?", "vouch(es|ed|ing)?", "beats?", "trips?", // election, transfer target, confirm, heartbeat, delay
	"liars?", "strangers?", "lets? in", "strikes? off", "born", // malicious member, unauthenticated client, admit, remove, create
	"anew", "beside", "parted", "mend(s|ed|ing)?", "alone", "wants", "bears?", "borne", // again, next to, split, fix, only, need, tolerate
	"in calm", "at rest", "for ever", "but for", "one a line", "the house", "the very", "by its own word", "upon which", "kept what was", "no more",
}, "|") + `)\b`)

var permitted = regexp.MustCompile(`[Rr]ound trips?|[Ss]how who leads|one line says`)

// Help, errors and the log of the commands keep to the words of the glossary.
func TestTextsLanguage(t *testing.T) {
	files := token.NewFileSet()
	for _, dir := range []string{".", "../../internal/command", "../../internal/api/line.go", "../../engines/cmd/batuta-engine"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/runtest/") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING || strings.HasPrefix(lit.Value, "`json:") {
					return true
				}
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				at := files.Position(lit.Pos())
				for line := range strings.Lines(text) {
					if found := avoided.FindString(permitted.ReplaceAllString(line, "")); found != "" {
						t.Errorf("%s:%d: %q in %q", at.Filename, at.Line, found, strings.TrimSpace(line))
					}
					at.Line++
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

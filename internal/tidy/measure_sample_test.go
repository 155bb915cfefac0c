package tidy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMeasure measures a small tree whose figures can be counted by eye.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	words := strings.Repeat("// a leader sends heartbeats to each of the members on its list\n", 20)
	for name, text := range map[string]string{
		"p/a.go":          words + "// who tells another\npackage p\n\nimport \"q\"\n\ntype T struct{}\n\nfunc (T) A() { b(); q.B().f() }\n\nfunc (*T) B() {}\n",
		"p/b.go":          "package p\n\nfunc b() { c(); e(struct{ c int }{}) }\n",
		"p/c.go":          "package p\n\nfunc c() { T{}.A() }\n",
		"p/d.go":          "package p\n\nfunc d() { c() }\n\nfunc p() { d() }\n",                                // no file calls the function that is named as its package
		"p/e.go":          "package p\n\nimport \"q\"\n\nfunc e(b struct{ c int }) int { q.A(); return b.c }\n", // no call in it
		"p/f.go":          "package p\n\nfunc (T) f() { b() }\n",
		"p/a_test.go":     "package p\n\nfunc (T) C() {}\n",
		"internal/i/i.go": "package i\n",
		"cmd/c/main.go":   "package main\n",
		"other/go.mod":    "module other\n",
		"other/o.go":      words + "// whose\npackage other\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := measure(t, dir)
	for f, want := range map[figure]float64{
		{"methods", "p.T"}:       3,
		{"files", "p"}:           6,
		{"loop", "p"}:            4, // a, b, c and f; d calls and is not called, e is called
		{"public", "the module"}: 1,
		{"who", "p"}:             4.1, // of 20 times 12 words and 3
		{"tell", "p"}:            4.1,
		{"one", "p"}:             4.1,
		{"lines", "the module"}:  51,
		{"who", "other"}:         4.1, // of 20 times 12 words and 1
		{"files", "other"}:       1,
		{"lines", "other"}:       22,
		{"public", "other"}:      0,
	} {
		if got[f] != want {
			t.Errorf("%s of %s: %v, not %v", f.bar, f.of, got[f], want)
		}
	}
}

package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var tag = regexp.MustCompile(`<[^>]*>`)

// The glossary defines each word once, in at most 25 words, and every page links to it.
func TestGlossary(t *testing.T) {
	defined := map[string]bool{}
	for n, line := range prose(t, "docs/glossary.md") {
		entry, ok := strings.CutPrefix(line, "- ")
		if !ok {
			continue
		}
		term, definition, ok := strings.Cut(tag.ReplaceAllString(entry, ""), "**: ")
		if words := len(strings.Fields(definition)); !ok || words == 0 || words > 25 {
			t.Errorf("docs/glossary.md:%d: %d words: write **term**: definition, of at most 25 words", n+1, words)
		}
		if defined[term] {
			t.Errorf("docs/glossary.md:%d: %s** is defined twice", n+1, term)
		}
		defined[term] = true
	}
	if len(defined) < 60 {
		t.Errorf("the glossary defines only %d terms", len(defined))
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md", "README.es.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if page != "docs/glossary.md" && !strings.Contains(string(text), "glossary.md") {
			t.Errorf("%s does not link to docs/glossary.md where it first uses a term of it", page)
		}
	}
}

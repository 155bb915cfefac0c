package web

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	textKey   = regexp.MustCompile(`(?m)(?:^ +|, |\{ ?)(\w+): ['"` + "`]")
	textInUse = regexp.MustCompile(`\bt\('(\w+)'[,)]|data-t(?:-label|-title)?="?(\w+)`)
)

// A page has each of its texts in both languages. A key without a text would be shown itself.
func TestTextsAreThere(t *testing.T) {
	for _, page := range []string{"lab", "dashboard"} {
		source, err := os.ReadFile(page + "/texts.js")
		if err != nil {
			t.Fatal(err)
		}
		english, spanish, ok := strings.Cut(string(source), "\n  es: {")
		if !ok {
			t.Fatalf("%s/texts.js has no Spanish", page)
		}
		en, es := keys(english), keys(spanish)
		for key := range en {
			if !es[key] {
				t.Errorf("%s/texts.js has no Spanish for %s", page, key)
			}
		}
		files, _ := filepath.Glob(page + "/*.[jh][st]*")
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, use := range textInUse.FindAllStringSubmatch(string(source), -1) {
				if key := use[1] + use[2]; !es[key] {
					t.Errorf("%s shows the text %s, which %s/texts.js does not have", file, key, page)
				}
			}
		}
	}
}

func keys(texts string) map[string]bool {
	found := map[string]bool{}
	for _, key := range textKey.FindAllStringSubmatch(texts, -1) {
		found[key[1]] = true
	}
	return found
}

package batuta

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log has one key for one thing: whoever searches it for "error" finds all of them.
func TestAnErrorIsLoggedUnderOneKey(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), `"err", `) || strings.Contains(string(text), `slog.Any("err"`) {
			t.Errorf("%s logs an error under err; the key is error", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

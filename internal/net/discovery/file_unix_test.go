//go:build unix

package discovery

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// What is wrong in a file or with it is reported, and the rest of the file counts.
func TestAFileOfMembers(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	many := strings.Repeat("127.0.0.1:1\n", 2*MaxAddresses)
	for name, test := range map[string]struct {
		path string
		want []string
		err  string
	}{
		"good":      {file("good", "# all\n\n 127.0.0.2:1 # two\r\n127.0.0.1:2\n127.0.0.2:1"), []string{"127.0.0.1:2", "127.0.0.2:1"}, ""},
		"empty":     {file("empty", ""), nil, ""},
		"one wrong": {file("wrong", "1=127.0.0.1:1\n127.0.0.1:2\n"), []string{"127.0.0.1:2"}, `names "1=127.0.0.1:1": host`},
		"garbage":   {file("garbage", "\x1b[2J\x00\xff\n"), nil, `\x1b[2J`},
		"many":      {file("many", many), []string{"127.0.0.1:1"}, ""},
		"large":     {file("large", strings.Repeat("#", maxFile+1)), nil, "at most 65536 are read"},
		"none":      {filepath.Join(dir, "none"), nil, "no such file"},
		"directory": {dir, nil, "give a regular file"},
		"pipe":      {pipe, nil, "give a regular file"},
	} {
		got, err := Addresses(t.Context(), []string{"file:" + test.path})
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), test.path)) {
			t.Errorf("%s: got %v, want %q", name, err, test.err)
		}
	}
}

package tidy

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// A subject has an area, then a verb and an object.
var subjectForm = regexp.MustCompile(`^[a-z0-9/,. -]+: [a-z]`)

const (
	longestSubject = 60
	// checkedSince is when the rule began; commits before it have subjects of other forms.
	checkedSince = "2026-11-25T06:00:00Z"
)

// wrongSubject gives what is wrong with the subject of a commit.
func wrongSubject(subject string) string {
	switch {
	case len(subject) > longestSubject:
		return "it has more than 60 characters"
	case !subjectForm.MatchString(subject):
		return `it must be "area: verb object", in lower case`
	}
	return ""
}

func TestSubjectsOfCommits(t *testing.T) {
	for _, line := range strings.Split(git(t, "log", "--no-merges", "--since="+checkedSince, "--format=%h %s"), "\n") {
		hash, subject, found := strings.Cut(line, " ")
		if !found {
			continue
		}
		if wrong := wrongSubject(subject); wrong != "" {
			t.Errorf("the subject of commit %s is %q: %s", hash, subject, wrong)
		}
	}
}

func TestSubjectsAreChecked(t *testing.T) {
	for subject, right := range map[string]bool{
		"docs: add a page on times":               true,
		"internal/tidy, docs: check subjects":     true,
		"Docs: add a page":                        false,
		"add a page":                              false,
		"docs: Add a page":                        false,
		"docs: " + strings.Repeat("a", 54):        true,
		"docs: " + strings.Repeat("a", 54) + "bc": false,
	} {
		if wrong := wrongSubject(subject); (wrong == "") != right {
			t.Errorf("%q: %q", subject, wrong)
		}
	}
}

// The tree has sources and no built programs.
func TestNoProgramIsInTheTree(t *testing.T) {
	checked := 0
	for _, name := range strings.Split(git(t, "ls-files", "-z"), "\x00") {
		file, err := os.Open(name)
		if err != nil {
			continue // removed, and not committed yet
		}
		var magic [4]byte
		n, _ := file.Read(magic[:])
		file.Close()
		checked++
		if isProgram(magic[:n]) {
			t.Errorf("%s is a built program: remove it from the tree", name)
		}
	}
	if checked < 500 {
		t.Errorf("only %d files were found", checked)
	}
}

func isProgram(magic []byte) bool {
	for _, m := range []string{"\x7fELF", "\xcf\xfa\xed\xfe", "\x00asm", "MZ\x90\x00"} {
		if bytes.Equal(magic, []byte(m)) {
			return true
		}
	}
	return false
}

// A program is found by its first bytes.
func TestAProgramIsFound(t *testing.T) {
	if !isProgram([]byte("\x7fELF")) || isProgram([]byte("pack")) || isProgram(nil) {
		t.Error("a program is not told from a source")
	}
}

// git runs it in the checkout. The source of a release has no history to check, and a checkout
// that git refuses to read, as one of a different owner, has none either.
func git(t *testing.T, args ...string) string {
	t.Helper()
	if out, err := exec.Command("git", "rev-parse", "HEAD").CombinedOutput(); err != nil {
		t.Skipf("there is no git checkout here, so no history: %v\n%s", err, out)
	}
	out, err := exec.Command("git", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

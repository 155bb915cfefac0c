package hooks

import (
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Command splits a line that runs without a shell, and checks that it can run: its program exists,
// and nothing in it needs a shell.
func Command(line string) (argv []string, err error) {
	argv, err = Words(line)
	if err != nil || len(argv) == 0 {
		return nil, err
	}
	if err := Runnable(argv, line); err != nil {
		return nil, err
	}
	return argv, nil
}

// Runnable does this check for argv, which is at the end of line.
func Runnable(argv []string, line string) error {
	if _, err := exec.LookPath(argv[0]); err != nil {
		return fmt.Errorf("%w; give the path of a program, or one that is in PATH", err)
	}
	shells := []string{"sh", "bash", "dash", "ash", "ksh", "zsh"}
	if what := forShell(line); what != "" && !slices.Contains(shells, path.Base(argv[0])) {
		return fmt.Errorf("%s is for a shell to read, and none does: write sh -c '…', or put it in single quotes if it is meant as it stands", what)
	}
	return nil
}

// operator matches shell operators, which join or redirect commands.
var operator = regexp.MustCompile(`^(\|\|?|&&?|;+|[0-9]?(<|>|>>|>&|&>).*|.*;)$`)

// expansion matches what a shell would replace.
var expansion = regexp.MustCompile("^(\\$([A-Za-z_][A-Za-z0-9_]*|[{(].*|[?!#@*$0-9])|`.*)")

// forShell returns the first part of line that only a shell understands; "" if there is none. Text
// in single quotes, or after a backslash, is literal.
func forShell(line string) string {
	var word strings.Builder
	plain, inWord, escaped, quote := true, false, false, rune(0)
	for i, c := range line + " " {
		switch {
		case escaped:
			escaped, plain = false, false
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote == '\'' && c != quote:
		case c == '$' || c == '`':
			if found := expansion.FindString(line[i:]); found != "" {
				return found
			}
			inWord = true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '\'' || c == '"':
			quote, plain, inWord = c, false, true
		case strings.ContainsRune(" \t\r\n", c):
			if w := word.String(); inWord && plain && operator.MatchString(w) {
				return w
			}
			word.Reset()
			plain, inWord = true, false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	return ""
}

package hooks

import (
	"errors"
	"strings"
)

// Words splits a command line at blanks; quotes of either kind, and a backslash outside single
// quotes, keep blanks in an argument. Nothing else of a shell is supported: no variables, no
// patterns, no pipes.
func Words(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, escaped := false, false
	var quote rune
	for _, c := range line {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case strings.ContainsRune(" \t\r\n", c):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("a quote is not closed")
	case escaped:
		return nil, errors.New("nothing follows the last backslash")
	case inWord:
		words = append(words, word.String())
	}
	return words, nil
}

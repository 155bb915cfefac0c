package election

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shown is text from outside as a terminal may see it: what does not print, or
// changes how the rest does (control codes, zero-width and bidirectional marks),
// stands as an escape of Go, such as \u202e. All other text stays as it is.
func Shown(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !prints(r) && r != ' ' }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text { // what is no UTF-8 comes as U+FFFD
		if prints(r) || r == ' ' {
			b.WriteRune(r)
			continue
		}
		escaped := strconv.QuoteRuneToASCII(r)
		b.WriteString(escaped[1 : len(escaped)-1])
	}
	return b.String()
}

// prints reports whether a rune is seen as one of its own, and white space is not.
func prints(r rune) bool {
	return r != ' ' && unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

package batuta

import "github.com/batuta-dev/batuta/election"

// shown is text from outside as a terminal or a log may see it.
func shown(text string) string { return election.Shown(text) }

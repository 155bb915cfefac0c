package tidy

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const longestMessage = 35 // words up to a full stop, a colon or a semicolon

var (
	// messageText is the source of which users read errors, log messages, events and metrics.
	messageText = regexp.MustCompile(`^(\w+\.go|(election|quorum|superpeer|batuta\w+|compat/boss|internal/(core|net|disk|clock|overdue|eventlog|logqueue|api|command))/.*|engines/[^/]+\.go|engines/(etcd|kubernetes|postgres|nats|mysql|redis|s3|consul)/.*)$`)
	// kitText is what tests import.
	kitText = regexp.MustCompile(`^(electiontest|internal/work/run/runtest|compat/boss/internal|batutatest)/`)
	clause  = regexp.MustCompile(`[.:;]\s`)
)

// TestMessages holds messages, and what members do and why in a trace, to the words of TestLanguage. Exceptions
// are statements of SQL and Redis, with a column named beat.
func TestMessages(t *testing.T) {
	checked := 0
	for _, m := range messages(t) {
		checked++
		if wrong := wrongMessage(m.text); wrong != "" {
			t.Errorf("%s: %q: %s", m.file, m.text, wrong)
		}
	}
	if checked < 1_000 {
		t.Errorf("only %d messages were found", checked)
	}
}

func TestMessagesAreChecked(t *testing.T) {
	for text, right := range map[string]bool{
		"it creates no cluster by itself":               true,
		"the next leads within a round trip":            true,
		"it tells nobody":                               false,
		"%s says: %w":                                   false,
		strings.Repeat("word ", longestMessage):         true,
		strings.Repeat("word ", longestMessage) + "x":   false,
		strings.Repeat("a b: ", longestMessage) + "x":   true,
		"another would take the lead from member %d %s": false,
	} {
		if wrong := wrongMessage(text); (wrong == "") != right {
			t.Errorf("%q: %q", text, wrong)
		}
	}
}

// wrongMessage gives what is wrong with the words of a message.
func wrongMessage(text string) string {
	if found := avoided.FindAllString(permitted.ReplaceAllString(text, ""), -1); found != nil {
		return "use other words than " + strings.Join(found, ", ")
	}
	for _, part := range clause.Split(text, -1) {
		if words := len(strings.Fields(part)); words > longestMessage {
			return "a clause of it has " + strconv.Itoa(words) + " words"
		}
	}
	return ""
}

type message struct{ file, text string }

// messages lists the texts of more than one word, without those of several lines, which are help, and statements.
func messages(t *testing.T) (list []message) {
	t.Helper()
	for file, parsed := range sources(t, ".") {
		if !messageText.MatchString(file) || kitText.MatchString(file) {
			continue
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				several := strings.Contains(strings.TrimSuffix(text, "\n"), "\n")
				if strings.Contains(strings.TrimSpace(text), " ") && !several && !isStatement(file, text) {
					list = append(list, message{file, text})
				}
			}
			return true
		})
	}
	return list
}

// isStatement reports whether a text is a statement for a server.
func isStatement(file, text string) bool {
	return strings.HasPrefix(file, "engines/") && regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|CREATE|WHERE|redis\.call)\b`).MatchString(text)
}

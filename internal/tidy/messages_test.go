package tidy

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
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
	verb    = regexp.MustCompile(`%[-+# 0-9.*\[\]]*[a-zA-Z]`)
)

// TestMessages holds messages to the words of TestLanguage. Exceptions are the reasons of a trace, which recorded
// traces and the pages' translations have, and statements of SQL and Redis, whose column is named beat.
func TestMessages(t *testing.T) {
	traces, checked := recordedTraces(t), 0
	for _, m := range messages(t) {
		checked++
		if wrong := wrongMessage(m.text); wrong != "" && (m.strict || !traces.has(m.text)) {
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
	if traces := recordedTraces(t); !traces.has("it won the contest") || traces.has("%d members won it") {
		t.Error("a reason of a trace is not distinguished from a message")
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

// A message is strict if it is that of an error or of a log, which no trace excuses.
type message struct {
	file, text string
	strict     bool
}

// makers are the functions whose text is that of an error or of a log.
var makers = []string{"New", "Errorf", "Debug", "Info", "Warn", "Error"}

// messages lists the texts of more than one word, without those of several lines, which are help, and statements.
func messages(t *testing.T) (list []message) {
	t.Helper()
	for file, parsed := range sources(t, ".") {
		if !messageText.MatchString(file) || kitText.MatchString(file) {
			continue
		}
		var strict []ast.Expr
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(makers, f.Sel.Name) {
					strict = append(strict, n.Args...)
				}
			case *ast.BasicLit:
				text, _ := strconv.Unquote(n.Value)
				several := strings.Contains(strings.TrimSuffix(text, "\n"), "\n")
				if n.Kind == token.STRING && strings.Contains(strings.TrimSpace(text), " ") && !several && !isStatement(file, text) {
					list = append(list, message{file, text, slices.Contains(strict, ast.Expr(n))})
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

// traces are the recorded traces, in one text.
type traces string

// has reports whether a recorded trace has what a text prints.
func (all traces) has(text string) bool {
	for _, part := range verb.Split(text, -1) {
		if part = strings.TrimSpace(part); strings.Contains(part, " ") {
			return strings.Contains(string(all), part)
		}
	}
	return false
}

func recordedTraces(t *testing.T) traces {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{"election", "quorum", "internal/sim"} {
		err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || path.Ext(name) != ".txt" {
				return err
			}
			text, err := os.ReadFile(path.Join(dir, name))
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return traces(all.String())
}

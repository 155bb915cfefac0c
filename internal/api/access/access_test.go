package access_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/api/access"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A line that is wrong is refused with its number and what to write. No token is quoted.
func TestLinesThatAreRefused(t *testing.T) {
	const token = "0123456789abcdef"
	for line, want := range map[string]string{
		"":                                 "holds no token",
		token:                              "TOKEN stand billing-*",
		"read":                             "TOKEN stand billing-*",
		token + " admin":                   "TOKEN stand billing-*",
		token + " read payroll":            "TOKEN stand billing-*",
		token + " operate payroll":         "TOKEN stand billing-*",
		token + " x operate":               "TOKEN stand billing-*",
		token + " read limit=5":            "TOKEN stand billing-*",
		token + " stand":                   "needs the elections",
		token + " stand limit=5":           "needs the elections",
		token + " stand a*b":               "one *",
		token + " stand **":                "one *",
		token + " stand \x01":              "one *",
		token + " stand a limit=0":         "1 to 10000",
		token + " stand a limit=x":         "1 to 10000",
		token + " operate limit=10001":     "1 to 10000",
		"short operate":                    "batuta secret new",
		"user:no-such-user-1 stand a":      "no such user",
		"user: operate":                    "no such user",
		"user:-1 operate":                  "no such user",
		"user:root stand":                  "needs the elections",
		token + " stand " + long(1000):     "one *",
		"# a comment\n" + token + " admin": ":2: ",
	} {
		_, err := access.ReadFile(file(t, line+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), token) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestLines(t *testing.T) {
	const a, b = "0123456789abcdef", "fedcba9876543210"
	grants, err := access.ReadFile(file(t, "# clients\n\noperate "+a+"\n"+b+" stand read billing-* limit=7\nuser:root read\nuser:4242 stand *\n"))
	if err != nil || len(grants) != 4 {
		t.Fatal(grants, err)
	}
	for i, c := range []struct {
		election string
		may      bool
	}{{"payroll", true}, {"billing-eu", true}, {"payroll", false}, {"payroll", true}} {
		if grants[i].May(c.election) != c.may {
			t.Errorf("%+v and %s", grants[i], c.election)
		}
	}
	if g := grants[1]; !g.May("read") || g.May("reads") || g.May("billing") || g.Limit != 7 || g.Role != access.Stand {
		t.Errorf("%+v", g)
	}
	if g := grants[2]; g.User != "0" || g.Token != "" || g.Limit != access.DefaultLimit {
		t.Errorf("%+v", g)
	}
}

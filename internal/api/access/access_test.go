package access_test

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

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

// A line with an error permits nothing and is named; the others count. A user may be deleted before an agent starts.
func TestABadLineLeavesTheOthers(t *testing.T) {
	const a, b = "0123456789abcdef", "fedcba9876543210"
	path := file(t, "user:no-such-user-1 operate\n"+a+" operate\n")
	tokens, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	role := func(token string) access.Role {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		g, _ := tokens.Of(r)
		return g.Role
	}
	if err := tokens.Refresh(); err == nil || !strings.Contains(err.Error(), path+":1: user:no-such-user-1") {
		t.Errorf("the first reading for a request gives %v", err)
	}
	write := func(text string) error {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return tokens.Reload()
	}
	if role(a) != access.Operate || role(b) != access.Nobody {
		t.Errorf("roles %v and %v", role(a), role(b))
	}
	err = write(a + " admin\n" + b + " read\nuser:root what\n")
	if err == nil || !strings.Contains(err.Error(), ":1: ") || !strings.Contains(err.Error(), ":3: ") || strings.Contains(err.Error(), a) {
		t.Errorf("two bad lines give %v", err)
	}
	if role(a) != access.Nobody || role(b) != access.Read {
		t.Errorf("roles %v and %v", role(a), role(b))
	}
	for _, text := range []string{a + " admin\n", ""} {
		if err := write(b + " read\n"); err != nil || role(b) != access.Read {
			t.Errorf("a good line: %v, role %v", err, role(b))
		}
		if err := write(text); err == nil || role(b) != access.Nobody {
			t.Errorf("without a good line: %v, role %v", err, role(b))
		}
	}
	if tokens, err = access.Load(file(t, "user:no-such-user-1 operate\n")); err != nil || role(a) != access.Nobody {
		t.Errorf("a start with a deleted user only: %v, role %v", err, role(a))
	}
	if _, err := access.Load(file(t, "user:no-such-user-1 operate\n"+a+" admin\n"+b+" read\n")); err == nil || !strings.Contains(err.Error(), ":2: ") {
		t.Errorf("a start with a bad line: %v", err)
	}
}

// A file that cannot be read changes nothing, and counts as soon as it can be.
func TestAFileThatOthersReadIsReadOnceItIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode there")
	}
	const a, b = "0123456789abcdef", "fedcba9876543210"
	path := file(t, a+" operate\n")
	tokens, err := access.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	role := func(token string) access.Role {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		g, _ := tokens.Of(r)
		return g.Role
	}
	if err := errors.Join(os.WriteFile(path, []byte(b+" operate\n"), 0o600), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Refresh(); err == nil || role(a) != access.Operate || role(b) != access.Nobody {
		t.Errorf("a file that others read: %v, roles %v and %v", err, role(a), role(b))
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // it looks once a second
	if err := tokens.Refresh(); err != nil || role(a) != access.Nobody || role(b) != access.Operate {
		t.Errorf("the same file, private: %v, roles %v and %v", err, role(a), role(b))
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

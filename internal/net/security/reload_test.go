package security_test

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/net/security"
)

// What keeps a file from being read may end without a change that the file shows: its owner is
// corrected, or files can be opened again. It is tried again until it is read, and reported once.
func TestAFileThatCannotBeReadIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	first, next := security.NewSecret(), security.NewSecret()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	s, err := security.New(t.Context(), "payments", "1", security.Options{SecretFile: path})
	if err != nil {
		t.Fatal(err)
	}
	reload := func(changed bool, fault string) {
		t.Helper()
		got, err := s.Reload(t.Context(), false)
		if got != changed || (err != nil) != (fault != "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("changed: %v, %v; want %v, %q", got, err, changed, fault)
		}
	}
	broken := strings.Repeat("?", len(next))
	write(broken)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	reload(true, "is not a secret")
	reload(false, "")
	write(next) // of the same size
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	reload(true, "")
	reload(false, "")
	write(broken) // reported again, because it was read since
	reload(true, "is not a secret")
}

// The error of a certificate that is not valid yet has the time of the check. It is reported once all
// the same, and the certificate is taken up when it has become valid.
func TestACertificateThatIsNotValidYetIsReportedOnce(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, pair *tls.Certificate) {
		t.Helper()
		cert, key, err := security.PEM(pair)
		for file, text := range map[string][]byte{name + ".pem": cert, name + "-key.pem": key} {
			if err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), text, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	ca, err := security.NewAuthority("payments", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(from time.Time) {
		t.Helper()
		pair, err := ca.Issue(security.Request{ID: "1", From: from, To: from.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		write("1", pair)
	}
	write("ca", ca.Pair())
	issue(time.Now().Add(-time.Minute))
	s, err := security.New(t.Context(), "payments", "1", security.Options{CertFile: filepath.Join(dir, "1.pem"),
		KeyFile: filepath.Join(dir, "1-key.pem"), CAFile: filepath.Join(dir, "ca.pem")})
	if err != nil {
		t.Fatal(err)
	}
	issue(time.Now().Add(4 * time.Second))
	if _, err := s.Reload(t.Context(), false); err == nil || !strings.HasSuffix(err.Error(), "; issue another one, or set the clock of this machine") {
		t.Fatalf("a certificate that is not valid yet: %v", err)
	}
	for range 8 {
		time.Sleep(time.Second)
		switch changed, err := s.Reload(t.Context(), false); {
		case err != nil:
			t.Fatalf("it is reported again: %v", err)
		case changed:
			return
		}
	}
	t.Error("it is not taken up")
}

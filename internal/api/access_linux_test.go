package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// asUser sends a request to a Unix socket as a user of this machine.
func asUser(t *testing.T, socket string, uid int, method, path, body string) (int, string) {
	t.Helper()
	type answer struct {
		code int
		text string
		err  error
	}
	done := make(chan answer)
	go func() {
		runtime.LockOSThread() // for good: the thread keeps the user, and ends with its goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			done <- answer{err: errno}
			return
		}
		c, err := net.Dial("unix", socket)
		if err != nil {
			done <- answer{err: err}
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			done <- answer{err: err}
			return
		}
		text, err := io.ReadAll(resp.Body)
		done <- answer{resp.StatusCode, string(text), err}
	}()
	a := <-done
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.code, a.text
}

// On a Unix socket the user of the process that connects is the client. It needs no token.
func TestTheUserOfASocketIsTheClient(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root becomes another user")
	}
	socket := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	serveTo(t, l, "user:4242 stand billing-* limit=1\nuser:root operate\nuser:4243 read\n")
	for _, c := range []struct {
		uid          int
		method, path string
		want         int
		text         string
	}{
		{4242, "PUT", "/v1/elections/billing-eu/candidacy", 200, ""},
		{4242, "PUT", "/v1/elections/billing-us/candidacy", 429, "limit=N"},
		{4242, "PUT", "/v1/elections/payroll/candidacy", 403, "billing-*"},
		{4242, "GET", "/v1/status", 200, `"access":"read"`},
		{4243, "PUT", "/v1/elections/billing-eu/candidacy", 403, "role operate"},
		{4244, "PUT", "/v1/elections/billing-eu/candidacy", 401, "add user:4244 and a role"},
		{0, "PUT", "/v1/elections/billing-us/candidacy", 200, ""},
		{0, "POST", "/v1/campaign", 200, ""},
	} {
		body := `{"ttl":"1m"}`
		if c.method != "PUT" {
			body = ""
		}
		if code, text := asUser(t, socket, c.uid, c.method, c.path, body); code != c.want || !strings.Contains(text, c.text) {
			t.Errorf("user %d: %s %s answers %d %s, not %d", c.uid, c.method, c.path, code, text, c.want)
		}
	}
	// A token that is given counts, not the user.
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}}
	req, _ := http.NewRequest("GET", "http://localhost/v1/status", nil)
	req.Header.Set("Authorization", "Bearer wrong-0123456789abcdef")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("root with a wrong token is answered %s", resp.Status)
	}
}

// shortDir is a directory with a path short enough for a socket, which every user reaches.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "batuta")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

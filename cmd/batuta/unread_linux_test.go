package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
	"github.com/batuta-dev/batuta/internal/work/hooks"
)

// fullPipe is a pipe whose reader has stopped reading: the next write blocks.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = w.WriteString(strings.Repeat("\n", size))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	}
	return r, w
}

// getFrom asks the API at addr, within a bound that a probe would keep.
func getFrom(addr, path string) (code int, body []byte, err error) {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + addr + path)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// until repeats f every so often, until it says that all is well.
func until(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(agreeWithin)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// An agent whose standard error and standard output nobody reads leads on, and
// says later what is missing in its log.
func TestAnAgentThatNobodyReads(t *testing.T) {
	ports, err := freeport.Find(1)
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("127.0.0.1:%d", ports[0])
	logs, stderr := fullPipe(t)
	_, stdout := fullPipe(t)
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{"batuta", "agent", "--id", "1", "--listen", "127.0.0.1:0", "--http", at,
		"--log-level", "debug", "--events", "json", "--t-max", "2s", "--t-process", "6s"} // whatever holds this machine up
	cmd.SysProcAttr = hooks.ChildAttributes()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	var s api.Status
	until(t, "it leads and drops log records", func() error {
		for range 100 { // something to log
			if resp, err := http.Post("http://"+at+"/v1/campaign", "", nil); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		code, body, err := getFrom(at, "/v1/status")
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("%d %s %v", code, body, err)
		}
		if err := json.Unmarshal(body, &s); err != nil || s.Role != "leader" || s.LogDropped == 0 {
			return fmt.Errorf("%s %v", body, err)
		}
		return nil
	})
	if code, body, err := getFrom(at, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d %s %v", code, body, err)
	}
	if s.Epoch != 1 {
		t.Errorf("it leads in epoch %d: it has lost the lead meanwhile", s.Epoch)
	}
	late := time.AfterFunc(agreeWithin, func() { logs.Close() })
	defer late.Stop()
	said(t, bufio.NewScanner(logs), "log records were dropped")
}

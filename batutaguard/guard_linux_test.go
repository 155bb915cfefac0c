package batutaguard

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// TestMain lets the test binary be a program that has a guard, and lives until its input ends.
func TestMain(m *testing.M) {
	if addr := os.Getenv("BATUTAGUARD_TEST"); addr != "" {
		program(addr)
		return
	}
	os.Exit(m.Run())
}

func program(addr string) {
	g, err := Start(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	g.Swear(oathTo(addr))
	for g.Bars() != "" {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("guarded")
	os.Stdin.Read(make([]byte, 1))
	g.Close()
	fmt.Println("closed")
	os.Stdin.Read(make([]byte, 1))
}

func oathTo(addr string) attest.Oath {
	return attest.Oath{Token: election.Token{Epoch: 7, Leader: election.Rank{ID: "5"}}, Secret: bytes.Repeat([]byte{7}, attest.Size), Members: []string{addr}}
}

// begin starts a program with a guard, which attests to l.
func begin(t *testing.T, l net.Listener) (cmd *exec.Cmd, goOn func(), reads func(want string)) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), "BATUTAGUARD_TEST="+l.Addr().String()), os.Stderr
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil || errIn != nil || errOut != nil {
		t.Fatal(err, errIn, errOut)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	reads = func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the program prints %q, want %q", lines.Text(), want)
		}
	}
	reads("guarded")
	return cmd, func() { in.Write([]byte("\n")) }, reads
}

// guard waits until a process has one child that has the name of a guard. A child has no name while its program is
// loaded, which other processes of that program can hold up.
func guard(t *testing.T, of int) (pid string) {
	t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		found := guards(t, of)
		if len(found) == 1 {
			return found[0]
		}
		if time.Now().After(late) {
			t.Fatalf("%d guards, want one", len(found))
		}
	}
}

// guards are the children of a process that have the name of a guard.
func guards(t *testing.T, of int) (found []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && string(line) == name+"\x00" && strings.Fields(rest)[1] == fmt.Sprint(of) {
			found = append(found, e.Name())
		}
	}
	return found
}

const patience = 30 * time.Second

// The guard of a program that is killed attests that, and ends.
func TestTheEndOfAProgramIsAttested(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd, _, _ := begin(t, l)
	child := guard(t, cmd.Process.Pid)
	cmd.Process.Kill()
	l.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	c, err := l.Accept()
	if err != nil {
		t.Fatalf("nothing is attested: %v", err)
	}
	frame := make([]byte, wire.MaxAttestation)
	n, err := c.Read(frame)
	c.Close()
	if err != nil {
		t.Fatal(err)
	}
	h, err := wire.DecodeHandshake(frame[wire.LengthSize:n])
	if want := oathTo(""); err != nil || h.Kind != wire.KindAttest || h.Token != want.Token || !slices.Equal(h.Secret, want.Secret) {
		t.Errorf("attested is %+v, %v", h, err)
	}
	awaitEnd(t, child)
}

// The guard of a program that has closed it attests nothing, and ends.
func TestAClosedGuardAttestsNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd, goOn, reads := begin(t, l)
	child := guard(t, cmd.Process.Pid)
	goOn()
	reads("closed")
	awaitEnd(t, child)
	goOn()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	l.(*net.TCPListener).SetDeadline(time.Now().Add(10 * time.Millisecond))
	if c, err := l.Accept(); err == nil {
		c.Close()
		t.Error("it is attested that a program is dead that lives")
	}
}

// awaitEnd waits until a process has ended.
func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("guard %s does not end", pid)
		}
	}
}

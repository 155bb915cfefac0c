package podlabel

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/buildtest"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
)

// Processes of batuta, each with the files of a pod in a mount namespace of its own: the leader is
// killed, the next leader takes its label, and a restart takes leadership and the label back.
func TestTheLabelsOfProcesses(t *testing.T) {
	if err := exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", "/var/run").Run(); err != nil {
		if os.Getenv("BATUTA_TEST_NETNS") != "" {
			t.Fatal("no mount namespace can be made here: ", err)
		}
		t.Skip("it takes root's rights to give a process the files of a pod: ", err)
	}
	batuta := buildtest.Program(t, "../../../cmd/batuta")
	s := newServer(t, "web-1", "web-2")
	pod := account
	s.account()
	ports, err := freeport.Find(2)
	if err != nil {
		t.Fatal(err)
	}
	start := func(i int) *exec.Cmd {
		script := `mount -t tmpfs none /var/run && mkdir -p ` + pod + ` && cp "$0"/* ` + pod + ` && exec "$@"`
		cmd := exec.Command("unshare", "-m", "sh", "-c", script, account, batuta, "agent", "--pod-label", "--http", "off", "--cluster", "shop",
			"--id", fmt.Sprint(i), "--listen", fmt.Sprint("127.0.0.1:", ports[i-1]), "--member", fmt.Sprintf("%d=127.0.0.1:%d", 3-i, ports[2-i]))
		host, _ := s.environment("")("KUBERNETES_SERVICE_HOST")
		port, _ := s.environment("")("KUBERNETES_SERVICE_PORT")
		cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port, fmt.Sprint("POD_NAME=web-", i))
		cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
		cmd.WaitDelay = time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	start(1)
	leader := start(2)
	s.await("web-1=follower web-2=leader")
	leader.Process.Kill()
	s.await("web-1=leader web-2=follower")
	leader = start(2)
	s.await("web-1=follower web-2=leader")
	began := time.Now()
	leader.Process.Signal(syscall.SIGTERM)
	s.await("web-1=leader web-2=follower")
	t.Logf("the label moved %v after SIGTERM", time.Since(began))

	out, err := exec.Command(batuta, "agent", "--pod-label", "--listen", "127.0.0.1:0").CombinedOutput()
	if code := err.(*exec.ExitError).ExitCode(); code != 2 || !strings.Contains(string(out), "--pod-label: KUBERNETES_SERVICE_HOST is not set") {
		t.Errorf("outside of a pod: exit code %d, %s", code, out)
	}
}

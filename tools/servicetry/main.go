// Command servicetry holds three processes of the service in testdata/service to what it promises, beside a storage
// that refuses a lower fence than it has seen:
//
//	servicetry PROGRAM          # the processes are members of a quorum
//	servicetry PROGRAM etcd     # their election is on a server of etcd that servicetry starts
//
// The leader is killed and the next goes on; the storage refuses the dead leader's fence; at SIGTERM a leader hands over.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// patience is how long a step may take; it is generous, as CI's machine is busy.
const patience = time.Minute

func main() {
	dir, err := os.MkdirTemp("", "servicetry")
	if err == nil {
		err = try(os.Args[1], dir, len(os.Args) > 2)
		os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "servicetry:", err)
		os.Exit(1)
	}
}

// write is a write that the storage has taken.
type write struct {
	id    string
	fence uint64
	at    time.Time
}

// trial is the storage, and the processes that write to it.
type trial struct {
	program, dir, url string
	listen, addrs     []string // where the processes listen, and what each is given to find its election
	processes         map[string]*exec.Cmd
	taken             chan write
	mu                sync.Mutex
	highest           uint64 // the fence that the storage has seen
}

// ServeHTTP is the storage.
func (t *trial) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fence, err := strconv.ParseUint(r.FormValue("fence"), 10, 64)
	if err != nil || fence < t.highest {
		w.WriteHeader(http.StatusConflict)
		return
	}
	t.highest = fence
	t.taken <- write{r.FormValue("id"), fence, time.Now()}
}

func try(program, dir string, withEtcd bool) error {
	storage, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ports, err := free(5)
	if err != nil {
		return err
	}
	t := &trial{program: program, dir: dir, url: "http://" + storage.Addr().String(), listen: ports[:3], addrs: ports[:3],
		processes: map[string]*exec.Cmd{}, taken: make(chan write, 1<<16)}
	go http.Serve(storage, t)
	if withEtcd {
		t.addrs = ports[3:4]
		etcd, err := serveEtcd(filepath.Join(dir, "etcd"), "http://"+ports[3], "http://"+ports[4])
		if err != nil {
			return err
		}
		defer kill(etcd)
	}
	defer func() {
		for _, p := range t.processes {
			kill(p)
		}
	}()
	for _, id := range []string{"1", "2", "3"} {
		if err := t.start(id); err != nil {
			return err
		}
	}
	first, err := t.next(write{})
	if err != nil {
		return err
	}
	fmt.Printf("%s leads, and writes under fence %d\n", first.id, first.fence)
	second, err := t.killed(first)
	if err != nil {
		return err
	}
	return t.ended(second)
}

// killed kills a leader, and gives the first write of the next.
func (t *trial) killed(leader write) (write, error) {
	at := time.Now()
	kill(t.processes[leader.id])
	then, err := t.next(leader)
	if err != nil {
		return write{}, err
	}
	fmt.Printf("%s was killed; %v later %s writes under fence %d\n", leader.id, then.at.Sub(at).Round(time.Millisecond), then.id, then.fence)
	late, err := http.Post(fmt.Sprintf("%s?id=%s&fence=%d", t.url, leader.id, leader.fence), "", nil)
	if err != nil {
		return write{}, err
	}
	late.Body.Close()
	if late.StatusCode != http.StatusConflict {
		return write{}, fmt.Errorf("the storage answers %s to fence %d, after %d", late.Status, leader.fence, then.fence)
	}
	fmt.Printf("a late write of %s is refused: %s\n", leader.id, late.Status)
	return then, t.start(leader.id)
}

// ended ends a leader in order, and the remaining processes once the next leader works.
func (t *trial) ended(leader write) error {
	at := time.Now()
	if err := t.end(leader.id); err != nil {
		return err
	}
	then, err := t.next(leader)
	if err != nil {
		return err
	}
	fmt.Printf("%s ended at SIGTERM; %v later %s writes under fence %d\n", leader.id, then.at.Sub(at).Round(time.Millisecond), then.id, then.fence)
	for id := range t.processes {
		if err := t.end(id); err != nil {
			return err
		}
	}
	fmt.Println("the other two ended at SIGTERM")
	return nil
}

func serveEtcd(dir, clients, peers string) (*exec.Cmd, error) {
	server := exec.Command("etcd", "--data-dir", dir, "--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers, "--unsafe-no-fsync")
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("%w; apt-get install etcd-server", err)
	}
	return server, nil
}

// start starts a process, or starts it again.
func (t *trial) start(id string) error {
	i, _ := strconv.Atoi(id)
	log, err := os.OpenFile(filepath.Join(t.dir, id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p := exec.Command(t.program, t.addrs...)
	p.Env = append(os.Environ(), "ID="+id, "LISTEN="+t.listen[i-1], "DIR="+filepath.Join(t.dir, id), "STORAGE="+t.url)
	p.Stdout, p.Stderr, t.processes[id] = log, log, p
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p.Start()
}

func kill(p *exec.Cmd) {
	p.Process.Kill()
	p.Wait()
}

// end has a process shut down, which it must by itself.
func (t *trial) end(id string) error {
	p := t.processes[id]
	delete(t.processes, id)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	stuck := time.AfterFunc(patience, func() { p.Process.Kill() })
	defer stuck.Stop()
	if err := p.Wait(); err != nil {
		return fmt.Errorf("%s at SIGTERM: %w", id, err)
	}
	return nil
}

// next waits for the first write of the leader after a write, under a higher fence. That leader must stay for a second: a
// process that outranks it may have started later.
func (t *trial) next(after write) (write, error) {
	late, found := time.After(patience), after
	for {
		select {
		case w := <-t.taken:
			if found == after && w.id == after.id || w.fence <= found.fence {
				if found != after && w.at.Sub(found.at) > time.Second {
					return found, nil
				}
				continue
			}
			found = w
		case <-late:
			logs, _ := filepath.Glob(filepath.Join(t.dir, "*.log"))
			text, _ := exec.Command("tail", append([]string{"-n", "5"}, logs...)...).Output()
			return write{}, fmt.Errorf("no write of another leader than %q within %v; the processes log\n%s", after.id, patience, text)
		}
	}
}

// free gives addresses that no process listens at.
func free(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

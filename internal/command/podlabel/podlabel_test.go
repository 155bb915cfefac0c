package podlabel

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// server does with pods as the API of Kubernetes is documented.
type server struct {
	*httptest.Server
	t       *testing.T
	mu      sync.Mutex
	token   string                       // that it accepts
	pods    map[string]map[string]string // the labels of each pod
	history []string                     // POD=ROLE, in order
	refuse  string                       // the method that is forbidden
	silent  chan struct{}                // closed when it answers again; nil: it answers
}

func newServer(t *testing.T, pods ...string) *server {
	s := &server{t: t, token: "first", pods: map[string]map[string]string{}}
	for _, name := range pods {
		s.pods[name] = map[string]string{"app": "batuta"}
	}
	s.Server = httptest.NewTLSServer(s)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if silent := s.silent; silent != nil {
		s.mu.Unlock()
		select {
		case <-silent:
		case <-r.Context().Done():
		}
		s.mu.Lock()
		return
	}
	fail := func(code int, message string) {
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "message": message, "code": code})
	}
	name, _ := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/shop/pods")
	name = strings.TrimPrefix(name, "/")
	switch labels := s.pods[name]; {
	case r.Header.Get("Authorization") != "Bearer "+s.token:
		fail(http.StatusUnauthorized, "Unauthorized")
	case r.Method == s.refuse:
		fail(http.StatusForbidden, `pods "`+name+`" is forbidden`)
	case r.Method == http.MethodGet && name == "":
		var items []any
		for name, labels := range s.pods {
			matches := true
			for part := range strings.SplitSeq(r.URL.Query().Get("labelSelector"), ",") {
				key, value, _ := strings.Cut(part, "=")
				matches = matches && labels[key] == value
			}
			if matches {
				items = append(items, map[string]any{"metadata": map[string]any{"name": name, "labels": labels}})
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"kind": "PodList", "items": items})
	case labels == nil:
		fail(http.StatusNotFound, `pods "`+name+`" not found`)
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == "application/merge-patch+json":
		var patch struct {
			Metadata struct{ Labels map[string]string }
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &patch); err != nil {
			fail(http.StatusBadRequest, err.Error())
			return
		}
		for k, v := range patch.Metadata.Labels {
			labels[k] = v
		}
		s.history = append(s.history, name+"="+labels[Role])
		json.NewEncoder(w).Encode(map[string]any{"kind": "Pod", "metadata": map[string]any{"labels": labels}})
	default:
		fail(http.StatusUnsupportedMediaType, r.Method)
	}
}

// change changes what it does.
func (s *server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// await waits until the pods have the roles.
func (s *server) await(want string) {
	s.t.Helper()
	var got string
	for late := time.Now().Add(30 * time.Second); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		got = ""
		for _, name := range []string{"web-1", "web-2", "web-3"} {
			if labels := s.pods[name]; labels != nil {
				got += " " + name + "=" + labels[Role]
			}
		}
		s.mu.Unlock()
		if got = strings.TrimSpace(got); got == want {
			return
		}
	}
	s.t.Fatalf("the pods are %s, want %s", got, want)
}

// account makes the directory of a service account of this server, for the pods of the test.
func (s *server) account() string {
	s.t.Helper()
	dir, before := s.t.TempDir(), account
	s.t.Cleanup(func() { account = before })
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for name, text := range map[string]string{"token": s.token, "ca.crt": string(authority), "namespace": "shop\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	account = dir
	return dir
}

// environment is that of a pod.
func (s *server) environment(pod string) func(string) (string, bool) {
	u, _ := url.Parse(s.URL)
	host, port, _ := net.SplitHostPort(u.Host)
	values := map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "POD_NAME": pod}
	return func(name string) (string, bool) { v, ok := values[name]; return v, ok }
}

// follow labels the pods of a cluster's members, web-N of member N, until the test ends.
func (s *server) follow(c *batutatest.Cluster, members ...batuta.ID) (log *logged) {
	s.t.Helper()
	log = &logged{}
	s.account()
	for _, id := range members {
		s.followOne(c, id, log)
	}
	return log
}

func (s *server) followOne(c *batutatest.Cluster, id batuta.ID, log *logged) {
	s.t.Helper()
	p, err := Own("shop", s.environment("web-"+string(id)), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		s.t.Fatal(err)
	}
	node := c.Node(id)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Follow(node)
	}()
	s.t.Cleanup(func() { node.Close(); <-ended })
}

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// The label follows leadership. A leader that hands over has lost its label before the next has it.
func TestTheLeadersPodIsLabeled(t *testing.T) {
	s := newServer(t, "web-1", "web-2", "web-3")
	c := batutatest.New(t, 3)
	c.StartAll()
	s.follow(c, "1", "2", "3")
	s.await("web-1=follower web-2=follower web-3=leader")
	s.change(func() {
		if labels := s.pods["web-3"]; labels["app"] != "batuta" || labels[Cluster] != "shop" {
			t.Errorf("the labels are %v", labels)
		}
		s.history = nil
	})
	c.Stop("3")
	s.await("web-1=follower web-2=leader web-3=follower")
	s.change(func() {
		if got := fmt.Sprint(s.history[:2]); got != "[web-3=follower web-2=leader]" {
			t.Errorf("the first two changes are %s", got)
		}
	})
}

// A pod that died as leader cannot take its label off: the next leader does, and leaves the pods
// of other clusters alone.
func TestADeadLeadersLabelIsTaken(t *testing.T) {
	s := newServer(t, "web-1", "web-2", "web-3")
	c := batutatest.New(t, 2)
	c.StartAll()
	s.change(func() {
		s.pods["web-3"] = map[string]string{Role: Leader, Cluster: "shop"} // its machine is lost
		s.pods["cart-1"] = map[string]string{Role: Leader, Cluster: "cart"}
	})
	s.follow(c, "1", "2")
	s.await("web-1=follower web-2=leader web-3=follower")
	if got := s.pods["cart-1"][Role]; got != Leader {
		t.Errorf("the leader of the other cluster is labeled %s", got)
	}
}

// A restarted process takes off the label that its pod had before.
func TestARestartTakesTheLabelOff(t *testing.T) {
	s := newServer(t, "web-1", "web-2")
	s.pods["web-1"][Role] = Leader
	c := batutatest.New(t, 2)
	c.StartAll()
	s.follow(c, "1")
	s.await("web-1=follower web-2=")
}

// While the API server does not answer the election goes on, and the labels follow later.
func TestTheAPIServerIsSilent(t *testing.T) {
	s := newServer(t, "web-1", "web-2")
	c := batutatest.New(t, 2)
	c.StartAll()
	log := s.follow(c, "1", "2")
	s.await("web-1=follower web-2=leader")
	back := make(chan struct{})
	s.change(func() { s.silent = back })
	began := time.Now()
	c.Stop("2")
	c.Agree("1")
	if took := time.Since(began); took > 2*askTime+2*time.Second {
		t.Errorf("the next leader waited %v for the label", took)
	}
	s.change(func() { s.silent = nil; close(back) })
	s.await("web-1=leader web-2=follower")
	if n := strings.Count(log.String(), "deadline exceeded"); n == 0 || n > 8 {
		t.Errorf("the fault is logged %d times:\n%s", n, log)
	}
}

// The token of a service account lasts an hour; the kubelet replaces its file.
func TestTheTokenIsReplaced(t *testing.T) {
	s := newServer(t, "web-1", "web-2")
	c := batutatest.New(t, 2)
	c.StartAll()
	s.follow(c, "1", "2")
	s.await("web-1=follower web-2=leader")
	s.change(func() { s.token = "second" })
	if err := os.WriteFile(filepath.Join(account, "token"), []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Stop("2")
	s.await("web-1=leader web-2=follower")
}

// A refusal of the API server is logged with its remedy; after that the label is set.
func TestARefusal(t *testing.T) {
	for what, tt := range map[string]struct {
		refuse func(*server)
		want   string
	}{
		"patch is forbidden": {func(s *server) { s.refuse = http.MethodPatch }, "403 Forbidden: {.*web-1.* is forbidden.*verbs patch and list on pods"},
		"list is forbidden":  {func(s *server) { s.refuse = http.MethodGet }, "403 Forbidden: .*verbs patch and list on pods"},
		"another name":       {func(s *server) { delete(s.pods, "web-1") }, "404 Not Found: .*set POD_NAME from metadata.name"},
		"no token":           {func(s *server) { s.token = "other" }, "401 Unauthorized"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newServer(t, "web-1")
			tt.refuse(s)
			c := batutatest.New(t, 1)
			c.StartAll()
			s.account()
			os.WriteFile(filepath.Join(account, "token"), []byte("first"), 0o600)
			log := &logged{}
			s.followOne(c, "1", log)
			wanted := strings.Split(tt.want, ".*")
			found := func() bool {
				rest := log.String()
				for _, part := range wanted {
					_, after, ok := strings.Cut(rest, part)
					if !ok {
						return false
					}
					rest = after
				}
				return true
			}
			for late := time.Now().Add(30 * time.Second); !found(); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(late) {
					t.Fatalf("the log lacks %s:\n%s", tt.want, log)
				}
			}
			if c.Agree("1"); !c.Node("1").IsLeader() {
				t.Error("the election waits for a label")
			}
			s.change(func() {
				s.refuse, s.token = "", "first"
				if s.pods["web-1"] == nil {
					s.pods["web-1"] = map[string]string{}
				}
			})
			s.await("web-1=leader")
		})
	}
}

// What cannot work is found before the start.
func TestOwnRefuses(t *testing.T) {
	s := newServer(t, "web-1")
	s.account()
	nowhere := func(string) (string, bool) { return "", false }
	for what, tt := range map[string]struct {
		cluster, account string
		lookup           func(string) (string, bool)
		want             string
	}{
		"no label":   {"a b", account, s.environment("web-1"), `"a b" cannot be the label batuta.dev/cluster`},
		"no pod":     {"shop", account, nowhere, "KUBERNETES_SERVICE_HOST is not set"},
		"no account": {"shop", "/nonexistent", s.environment("web-1"), "automountServiceAccountToken"},
	} {
		account = tt.account
		if _, err := Own(tt.cluster, tt.lookup, nil); err == nil || !strings.Contains(err.Error(), tt.want) || cli.CodeOf(err) != cli.Usage {
			t.Errorf("%s: %v, want %q and exit code 2", what, err, tt.want)
		}
	}
}

package enginetest

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	leases "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// RealKubernetes names the program of Kubernetes' own API server, for tests to use that. To build it takes minutes:
//
//	GOWORK=off go -C engines/internal/kubetest build -o /tmp/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
const RealKubernetes = "BATUTA_TEST_KUBERNETES"

// Tokens that the API server accepts: of a user that may do all, of one that may read, and of one that may do nothing.
const (
	token    = "batuta-test"
	Reader   = "batuta-reader" // not on Kubernetes' own server
	Stranger = "batuta-stranger"
)

// Kubernetes is an API server that keeps Leases: Kubernetes' own, on a real etcd, if [RealKubernetes]
// names it, else a server that follows the documentation of that API.
type Kubernetes struct {
	Addr string               // HOST:PORT
	CA   string               // certificates that it is verified by; "": it is not Kubernetes' own
	Fail func() (mend func()) // stops all answers

	token string // "": of the user that may do all
}

// ServeKubernetes starts an API server.
func ServeKubernetes(t testing.TB) *Kubernetes {
	t.Helper()
	if program := os.Getenv(RealKubernetes); program != "" {
		return serveKubeAPIServer(t, program)
	}
	s := newLeaseServer(t)
	return &Kubernetes{Addr: strings.TrimPrefix(s.URL, "https://"), Fail: s.fail}
}

func serveKubeAPIServer(t testing.TB, program string) *Kubernetes {
	t.Helper()
	etcd := ServeEtcd(t, 1)
	dir := t.TempDir()
	key, tokens := filepath.Join(dir, "accounts.pem"), filepath.Join(dir, "tokens.csv")
	writeKey(t, key)
	if err := os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"+Stranger+",stranger,stranger\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(Ports(t, 1)[0])
	k := &Kubernetes{Addr: "127.0.0.1:" + port}
	server := Serve(t, func() *exec.Cmd {
		return exec.Command(program, "--etcd-servers", "http://"+etcd.Addrs[0], "--cert-dir", dir, "--bind-address", "127.0.0.1", "--secure-port", port,
			"--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.0.0.0/24",
			"--authorization-mode", "RBAC", "--token-auth-file", tokens, "--service-account-issuer", "https://kubernetes.default.svc",
			"--service-account-key-file", key, "--service-account-signing-key-file", key)
	})
	k.Fail = func() func() {
		server.Kill()
		return server.Start
	}
	name := "up"
	up := k.Leases(t, k.Addr)
	Await(t, "kube-apiserver answers", func(ctx context.Context) error {
		_, err := up.Create(ctx, &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name}}, meta.CreateOptions{})
		return err
	})
	ca, err := os.ReadFile(filepath.Join(dir, "apiserver.crt")) // it has made it
	if err != nil {
		t.Fatal(err)
	}
	k.CA = string(ca)
	return k
}

// writeKey makes a key for the tokens of service accounts, which kube-apiserver wants.
func writeKey(t testing.TB, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// As gives the same server for a client with that token.
func (k *Kubernetes) As(token string) *Kubernetes {
	as := *k
	as.token = token
	return &as
}

// Leases is a client of its own, of a server that is reached at addr.
func (k *Kubernetes) Leases(t testing.TB, addr string) leases.LeaseInterface {
	t.Helper()
	return k.Client(t, addr).Leases(meta.NamespaceDefault)
}

// Client is a client for client-go's own elections.
func (k *Kubernetes) Client(t testing.TB, addr string) *leases.CoordinationV1Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", k.Kubeconfig(t, addr))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c, err := leases.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Kubeconfig writes a kubeconfig file for the API server at addr.
func (k *Kubernetes) Kubeconfig(t testing.TB, addr string) string {
	t.Helper()
	cluster, user := &api.Cluster{Server: "https://" + addr, InsecureSkipTLSVerify: true}, &api.AuthInfo{Token: cmp.Or(k.token, token)}
	config := api.Config{Clusters: map[string]*api.Cluster{"test": cluster}, AuthInfos: map[string]*api.AuthInfo{"test": user},
		Contexts: map[string]*api.Context{"test": {Cluster: "test", AuthInfo: "test"}}, CurrentContext: "test"}
	file := filepath.Join(t.TempDir(), fmt.Sprintf("kubeconfig-%s", strings.ReplaceAll(addr, ":", "-")))
	if err := clientcmd.WriteToFile(config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// Lease reads a Lease.
func (k *Kubernetes) Lease(t testing.TB, name string) *coordination.Lease {
	t.Helper()
	var lease *coordination.Lease
	client := k.Leases(t, k.Addr)
	Await(t, "Lease "+name+" is read", func(ctx context.Context) (err error) {
		lease, err = client.Get(ctx, name, meta.GetOptions{})
		return err
	})
	return lease
}

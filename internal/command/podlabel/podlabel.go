// Package podlabel labels the Kubernetes pod of this process by its role in the election: the
// selector of a Service then reaches the leader.
package podlabel

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// The labels that are set, and the roles.
const (
	Role, Cluster    = "batuta.dev/role", "batuta.dev/cluster"
	Leader, Follower = "leader", "follower"

	askTime = 2 * time.Second        // for the requests of one change
	again   = 500 * time.Millisecond // before the second try; doubles up to every
	every   = 30 * time.Second       // between two looks of a leader
)

// account is the directory of the pod's service account.
var account = "/var/run/secrets/kubernetes.io/serviceaccount"

// Pod is the pod of this process; pods is the URL of all pods in its namespace.
type Pod struct {
	cluster, pods, name string
	log                 *slog.Logger
	asking              sync.Mutex
}

// Own is the pod that the environment names by POD_NAME, or by the name of the host. The labels
// have the name of the cluster.
func Own(cluster string, lookup func(string) (string, bool), log *slog.Logger) (*Pod, error) {
	host, ok := lookup("KUBERNETES_SERVICE_HOST")
	port, _ := lookup("KUBERNETES_SERVICE_PORT")
	namespace, err := os.ReadFile(account + "/namespace")
	switch {
	case !regexp.MustCompile(`^[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$`).MatchString(cluster):
		return nil, cli.Usagef("--pod-label: the name %q cannot be the label %s: use 1 to 63 letters, digits, '-', '_' and '.'", cluster, Cluster)
	case !ok:
		return nil, cli.Usagef("--pod-label: KUBERNETES_SERVICE_HOST is not set: this process is in no pod of Kubernetes")
	case err != nil:
		return nil, cli.Usagef("--pod-label: the pod has no service account: %w; set automountServiceAccountToken: true", err)
	}
	name, _ := lookup("POD_NAME")
	system, _ := os.Hostname()
	pods := "https://" + net.JoinHostPort(host, port) + "/api/v1/namespaces/" + url.PathEscape(strings.TrimSpace(string(namespace))) + "/pods"
	return &Pod{cluster: cluster, pods: pods, name: cmp.Or(name, system), log: log}, nil
}

// Follow labels the pod until node ends. A lead that this process gives up passes on when the
// label is gone, or after 4 s without an answer. A leader labels its pod every 30 s, and takes the
// label from pods that died with it.
func (p *Pod) Follow(node batuta.Elector) {
	follow := func() (ctx context.Context, stop func()) { // ctx ends when the label is set
		ctx, stop = context.WithCancel(context.Background())
		go func() { defer stop(); p.keep(ctx, Follower, node) }()
		return ctx, stop
	}
	labeled, stop := follow()
	node.Lead(context.Background(), func(ctx context.Context, _ batuta.Leadership) error {
		stop()
		p.keep(ctx, Leader, node)
		<-ctx.Done()
		labeled, stop = follow()
		select {
		case <-labeled.Done():
		case <-time.After(askTime):
		}
		return nil
	})
	stop()
}

// keep labels the pod until ctx ends or a follower has its label. It tries again after a failure.
func (p *Pod) keep(ctx context.Context, role string, node batuta.Elector) {
	for pause := again; role == Follower || node.IsLeader(); { // false: it was frozen
		wait, err := every, p.put(ctx, role)
		if err == nil && role == Follower {
			return
		} else if err != nil {
			p.log.Error("labels of pods are not set; the next try follows", "role", role, "in", pause, "error", err)
			wait, pause = pause, min(2*pause, every)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// put labels the pod; a leader takes its label from all that have it besides.
func (p *Pod) put(wanted context.Context, role string) error {
	p.asking.Lock()
	defer p.asking.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	if wanted.Err() != nil {
		return nil
	}
	err := p.label(ctx, p.name, role)
	if err != nil || role == Follower {
		return err
	}
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	err = p.ask(ctx, http.MethodGet, "?labelSelector="+url.QueryEscape(Role+"="+Leader+","+Cluster+"="+p.cluster), nil, &list)
	for _, pod := range list.Items {
		if pod.Metadata.Name != p.name {
			err = errors.Join(err, p.label(ctx, pod.Metadata.Name, Follower))
		}
	}
	return err
}

func (p *Pod) label(ctx context.Context, pod, role string) error {
	body := fmt.Sprintf(`{"metadata":{"labels":{%q:%q,%q:%q}}}`, Role, role, Cluster, p.cluster)
	return p.ask(ctx, http.MethodPatch, "/"+url.PathEscape(pod), []byte(body), &struct{}{})
}

// ask makes a request on its own connection, with the token and the authority of this moment.
func (p *Pod) ask(ctx context.Context, method, path string, body []byte, answer any) error {
	token, err := os.ReadFile(account + "/token")
	authority, missing := os.ReadFile(account + "/ca.crt")
	r, wrong := http.NewRequestWithContext(ctx, method, p.pods+path, bytes.NewReader(body))
	if err = cmp.Or(err, missing, wrong); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r.Header.Set("Content-Type", "application/merge-patch+json")
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	response, err := transport.RoundTrip(r) // which follows no redirect
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, r.URL, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if response.StatusCode == http.StatusOK {
		return cmp.Or(err, json.Unmarshal(text, answer))
	}
	hint := map[int]string{403: "; give the pod's service account the verbs patch and list on pods", 404: "; set POD_NAME from metadata.name"}
	return fmt.Errorf("%s %s: %s: %.400s%s", method, r.URL, response.Status, election.Shown(string(text)), hint[response.StatusCode])
}

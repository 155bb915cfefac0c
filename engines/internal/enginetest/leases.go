package enginetest

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// leaseServer is not Kubernetes': it serves Leases as its API is documented, each write under the
// resourceVersion that it replaces, and watches of a single Lease.
type leaseServer struct {
	*httptest.Server
	outage
	number uint64
	leases map[string]*coordination.Lease
}

func newLeaseServer(t testing.TB) *leaseServer {
	s := &leaseServer{leases: map[string]*coordination.Lease{}, number: 1000, outage: newOutage()}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.EnableHTTP2 = true // as Kubernetes' own has it
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	s.endWith(t, s.Server)
	return s
}

// lease returns a copy of a Lease; nil: there is none.
func (s *leaseServer) lease(name string) *coordination.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[name].DeepCopy()
}

// verbs are what the user of each token may do.
var verbs = map[string]string{token: "get watch create update", Reader: "get watch", Stranger: ""}

// admits refuses a request of a user that may not do it.
func (s *leaseServer) admits(w http.ResponseWriter, r *http.Request) bool {
	may, known := verbs[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	verb := map[string]string{http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update"}[r.Method]
	if r.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	switch {
	case !known:
		refuse(w, http.StatusUnauthorized, meta.StatusReasonUnauthorized)
	case !strings.Contains(may, verb):
		refuse(w, http.StatusForbidden, meta.StatusReasonForbidden)
	default:
		return true
	}
	return false
}

const leasesPath = "/apis/coordination.k8s.io/v1/namespaces/default/leases"

func (s *leaseServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	name := strings.Trim(strings.TrimPrefix(r.URL.Path, leasesPath), "/")
	switch {
	case down:
		s.hang(r)
	case !s.admits(w, r):
	case !strings.HasPrefix(r.URL.Path, leasesPath):
		refuse(w, http.StatusNotFound, meta.StatusReasonNotFound)
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case r.Method == http.MethodGet:
		s.get(w, name)
	case r.Method == http.MethodPost || r.Method == http.MethodPut:
		text, _ := io.ReadAll(r.Body) // what is lost of it makes no Lease
		lease := &coordination.Lease{}
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, lease); err != nil {
			refuse(w, http.StatusBadRequest, meta.StatusReason("BadRequest: "+err.Error()))
			return
		}
		s.put(w, lease, r.Method == http.MethodPost, r.URL.Query().Get("dryRun") == meta.DryRunAll)
	default:
		refuse(w, http.StatusMethodNotAllowed, meta.StatusReasonMethodNotAllowed)
	}
}

func (s *leaseServer) get(w http.ResponseWriter, name string) {
	if lease := s.lease(name); lease != nil {
		answer(w, http.StatusOK, lease)
		return
	}
	refuse(w, http.StatusNotFound, meta.StatusReasonNotFound)
}

func (s *leaseServer) put(w http.ResponseWriter, lease *coordination.Lease, create, dry bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.leases[lease.Name]
	switch {
	case create && now != nil:
		refuse(w, http.StatusConflict, meta.StatusReasonAlreadyExists)
		return
	case !create && now == nil:
		refuse(w, http.StatusNotFound, meta.StatusReasonNotFound)
		return
	case !create && lease.ResourceVersion != "" && lease.ResourceVersion != now.ResourceVersion:
		refuse(w, http.StatusConflict, meta.StatusReasonConflict)
		return
	case dry:
		answer(w, http.StatusOK, lease)
		return
	}
	s.number++
	lease.ResourceVersion = strconv.FormatUint(s.number, 10)
	lease.Namespace = "default"
	lease.TypeMeta = meta.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}
	s.leases[lease.Name] = lease
	s.wake()
	answer(w, http.StatusOK, lease)
}

// watch sends each version of a Lease above the version in the request.
func (s *leaseServer) watch(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	told, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush()
	for {
		s.mu.Lock()
		changed, lease, down := s.changed, s.leases[name], s.down
		s.mu.Unlock()
		if down {
			lease = nil // nothing is sent
		}
		if lease != nil {
			if number, _ := strconv.ParseUint(lease.ResourceVersion, 10, 64); number > told {
				told = number
				if json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": lease}) != nil {
					return
				}
				http.NewResponseController(w).Flush()
			}
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-s.ended:
			return
		}
	}
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, code int, reason meta.StatusReason) {
	answer(w, code, meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Message: string(reason), Reason: reason, Code: int32(code)})
}

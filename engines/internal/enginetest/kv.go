package enginetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// kvKey is what Consul from 1.21.5 on takes as a key.
var kvKey = regexp.MustCompile(`^[a-zA-Z0-9,_./\-?&=]+$`)

// kvServer is not Consul's: it serves a key-value store as Consul's API is documented, with blocking queries and
// check-and-set in transactions, and without tokens.
type kvServer struct {
	*httptest.Server
	outage
	index uint64
	pairs map[string]api.KVPair
}

func newKVServer(t testing.TB) *kvServer {
	s := &kvServer{pairs: map[string]api.KVPair{}, index: 1000, outage: newOutage()}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	s.endWith(t, s.Server)
	return s
}

func (s *kvServer) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is lost of it makes no transaction
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ofKey := strings.CutPrefix(r.URL.Path, "/v1/kv/")
	switch {
	case s.down:
		s.mu.Unlock()
		s.hang(r)
		s.mu.Lock()
	case ofKey && !kvKey.MatchString(key):
		http.Error(w, "invalid key name", http.StatusInternalServerError)
	case ofKey && r.Method == http.MethodGet:
		s.get(w, r, key)
	case ofKey && r.Method == http.MethodPut:
		s.put(key, body)
		fmt.Fprint(w, "true")
	case ofKey && r.Method == http.MethodDelete:
		s.index++
		delete(s.pairs, key)
		s.wake()
		fmt.Fprint(w, "true")
	case r.URL.Path == "/v1/txn" && r.Method == http.MethodPut:
		s.txn(w, body)
	default:
		http.Error(w, "not found", http.StatusNotFound)
	}
}

// put writes a value, unless it is the same. The caller holds the lock.
func (s *kvServer) put(key string, value []byte) api.KVPair {
	s.index++
	if now, found := s.pairs[key]; !found || !bytes.Equal(now.Value, value) {
		s.pairs[key] = api.KVPair{Key: key, Value: value, ModifyIndex: s.index}
		s.wake()
	}
	return s.pairs[key]
}

// get answers when the key has an index above that of the query, or its time is over. The caller holds the lock.
func (s *kvServer) get(w http.ResponseWriter, r *http.Request, key string) {
	after, _ := strconv.ParseUint(r.FormValue("index"), 10, 64) // 0: the query does not wait
	limit, _ := time.ParseDuration(r.FormValue("wait"))
	over := time.After(limit)
	for waits := true; ; {
		if s.down {
			s.mu.Unlock()
			s.hang(r)
			s.mu.Lock()
			return
		}
		pair, found := s.pairs[key]
		index := pair.ModifyIndex
		if !found {
			index = s.index
		}
		if index > after || !waits {
			w.Header().Set("X-Consul-Index", strconv.FormatUint(index, 10))
			w.Header().Set("X-Consul-LastContact", "0")
			if !found {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			json.NewEncoder(w).Encode([]api.KVPair{pair})
			return
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-over:
			waits = false
		case <-r.Context().Done():
			waits = false
		case <-s.ended:
			waits = false
		}
		s.mu.Lock()
	}
}

// txn does a transaction of a single check-and-set. The caller holds the lock.
func (s *kvServer) txn(w http.ResponseWriter, body []byte) {
	var ops api.TxnOps
	if err := json.Unmarshal(body, &ops); err != nil || len(ops) != 1 || ops[0].KV == nil || ops[0].KV.Verb != api.KVCAS {
		http.Error(w, "not a check-and-set", http.StatusBadRequest)
		return
	}
	op := ops[0].KV
	if !kvKey.MatchString(op.Key) {
		http.Error(w, "invalid key name", http.StatusInternalServerError)
		return
	}
	if s.pairs[op.Key].ModifyIndex != op.Index {
		w.WriteHeader(http.StatusConflict)
		json.NewEncoder(w).Encode(api.TxnResponse{Errors: api.TxnErrors{{What: fmt.Sprintf("failed to set key %q, index is stale", op.Key)}}})
		return
	}
	pair := s.put(op.Key, op.Value)
	pair.Value = nil
	json.NewEncoder(w).Encode(api.TxnResponse{Results: api.TxnResults{{KV: &pair}}})
}

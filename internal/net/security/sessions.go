package security

import (
	"crypto/tls"
	"sync"
	"time"
)

// maxSessions bounds the sessions that are kept; there are fewer members.
const maxSessions = 4096

// sessions are TLS sessions that a dial may resume: neither end then signs anything.
type sessions struct {
	mu sync.Mutex
	of map[string]session
}

type session struct {
	state   *tls.ClientSessionState
	expires time.Time // with the peer's certificate
}

func (s *sessions) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, key)
}

// sessionOf implements [tls.ClientSessionCache] for a single connection.
type sessionOf struct {
	all     *sessions
	key     string
	expires *time.Time // set before a session can be put
}

// Get implements [tls.ClientSessionCache].
func (s *sessionOf) Get(string) (*tls.ClientSessionState, bool) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	kept, ok := s.all.of[s.key]
	if !ok || !time.Now().Before(kept.expires) {
		return nil, false
	}
	return kept.state, true
}

// Put implements [tls.ClientSessionCache].
func (s *sessionOf) Put(_ string, state *tls.ClientSessionState) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if state == nil {
		delete(s.all.of, s.key)
		return
	}
	if len(s.all.of) >= maxSessions {
		clear(s.all.of) // it fills again as members are dialed
	}
	s.all.of[s.key] = session{state, *s.expires}
}

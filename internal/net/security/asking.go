package security

import (
	"crypto/tls"
	"errors"
	"slices"
)

// This file proves members to each other's HTTP APIs, by what they prove themselves with
// as members: no token has to be known to another, and none is sent.

// Ask is the TLS of a client that asks member id's API. It believes that member alone, and
// shows who it is itself.
func (s *Security) Ask(id string) *tls.Config {
	b := s.fresh()
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, // VerifyConnection does: ids are no host names
		VerifyConnection:   func(cs tls.ConnectionState) error { return s.Proves(cs, id) },
		GetClientCertificate: func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return b.authorities[0].dialing(asked)
		}}
}

// Recognize has a server ask for the certificates of members. Who shows none, or another,
// is let in all the same; a browser offers none but these.
func (s *Security) Recognize(config *tls.Config) {
	config.ClientAuth = tls.RequestClientCert
	switch a := s.fresh().authorities[0].(type) {
	case *secretAuthority:
		config.ClientCAs = a.pool
	case *certificates:
		if len(a.pools) > 0 {
			config.ClientCAs = a.pools[0]
		}
	}
}

// Member tells whether the other end of a connection is one of these members.
func (s *Security) Member(cs tls.ConnectionState, ids []string) error {
	b := s.fresh()
	a, err := b.believer(cs.PeerCertificates)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(ids, func(id string) bool { return a.proves(cs.PeerCertificates[0], id) }) {
		return errors.New("its certificate is not for a member, but for " + names(cs.PeerCertificates[0]))
	}
	return nil
}

// fresh is what the files say now; while they cannot be read, what they said.
func (s *Security) fresh() *belief {
	if s.Changed() {
		_ = s.Reload() // the member itself logs why
	}
	return s.current.Load()
}

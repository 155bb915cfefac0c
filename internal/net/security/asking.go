package security

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
)

// This file authenticates members to each other's HTTP APIs by their secret or certificates as
// members: no token is shared, and none is sent.

// Ask returns the TLS configuration of a client of member id's API. The client accepts only that
// member, and authenticates itself.
func (s *Security) Ask(id string) *tls.Config {
	b := s.fresh()
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, // VerifyConnection does: ids are no host names
		VerifyConnection:   func(cs tls.ConnectionState) error { return s.Proves(cs, id) },
		GetClientCertificate: func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return b.authorities[0].dialing(asked)
		}}
}

// Recognize makes a server request the certificates of members. A client without such a certificate
// is accepted too; a browser offers only certificates of these authorities.
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

// Member returns nil if the peer of a connection is a member with one of these ids.
func (s *Security) Member(cs tls.ConnectionState, ids []string) error {
	b := s.fresh()
	a, err := b.believer(cs.PeerCertificates)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(ids, func(id string) bool { return a.proves(cs.PeerCertificates[0], id) }) {
		return errors.New("its certificate is for no member: it is for " + names(cs.PeerCertificates[0]))
	}
	return nil
}

// fresh returns the state of the files now, or the last one if they cannot be read.
func (s *Security) fresh() *belief {
	_, _ = s.Reload(context.Background(), false) // the member itself logs the error
	return s.current.Load()
}

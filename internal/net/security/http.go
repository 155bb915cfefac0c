package security

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Serving is the TLS of an HTTP server: with a pair of files, or with a certificate by the
// cluster's secret, which batuta's own commands accept.
type Serving struct {
	cluster, id string
	options     Options

	mu      sync.Mutex
	stamps  [4]stamp
	looked  time.Time
	current func() (*tls.Certificate, error)
}

// NewServing reads the files that o names: CertFile and KeyFile, else SecretFile.
func NewServing(cluster, id string, o Options) (*Serving, error) {
	o.CAFile = ""
	s := &Serving{cluster: cluster, id: id, options: o, stamps: o.stamps(), looked: time.Now()}
	var err error
	s.current, err = s.load()
	return s, err
}

func (s *Serving) load() (func() (*tls.Certificate, error), error) {
	if s.options.CertFile != "" {
		pair, err := LoadPair(s.options.CertFile, s.options.KeyFile)
		return func() (*tls.Certificate, error) { return pair, nil }, err
	}
	all, err := secretAuthorities(s.options.SecretFile, s.cluster, s.id)
	if err != nil {
		return nil, err
	}
	return all[0].certificate, nil
}

// Config returns the configuration of a listener. The files are read again when they have changed.
func (s *Serving) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate() }}
}

func (s *Serving) certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.looked) >= time.Second {
		s.looked = now
		if stamps := s.options.stamps(); stamps != s.stamps {
			if fresh, err := s.load(); err == nil { // otherwise the previous certificate stays in use
				s.current, s.stamps = fresh, stamps
			}
		}
	}
	return s.current()
}

// ClientConfig returns the TLS configuration of a client of an agent. It accepts the authorities in
// caFile, or any server with the cluster's secret; nil if neither is given.
func ClientConfig(cluster, secretFile, caFile string) (*tls.Config, error) {
	if caFile != "" {
		pool, err := LoadPool(caFile)
		return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}, err
	}
	if secretFile == "" {
		return nil, nil
	}
	all, err := secretAuthorities(secretFile, cluster, "")
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13,
		InsecureSkipVerify: true, // VerifyConnection does: any member is accepted
		VerifyConnection: func(cs tls.ConnectionState) error {
			var faults []error
			for _, a := range all {
				err := chain(a.pool, cs.PeerCertificates, x509.VerifyOptions{})
				if err == nil {
					return nil
				}
				faults = append(faults, err)
			}
			return fmt.Errorf("this agent has not the secret of cluster %q: %w", cluster, errors.Join(faults...))
		}}, nil
}

func secretAuthorities(path, cluster, id string) (all []*secretAuthority, err error) {
	secrets, err := readSecrets(path)
	if err != nil {
		return nil, err
	}
	return authoritiesOf(secrets, cluster, id)
}

func authoritiesOf(secrets [][]byte, cluster, id string) (all []*secretAuthority, err error) {
	for _, secret := range secrets {
		a, err := newSecretAuthority(secret, cluster, id)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

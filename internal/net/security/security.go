package security

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options are how members authenticate. The zero value: not at all.
type Options struct {
	SecretFile                string      // the cluster's secrets, a line each: all are accepted
	CertFile, KeyFile, CAFile string      // this member's certificate and key, and the trusted authorities
	TLS                       *tls.Config // a service's own certificates, instead of files
	IDTemplate                string      // URI of a member: {cluster} and {id} are replaced; "": see [DefaultTemplate]
	Plain                     bool        // members without TLS are accepted too, and dialed without it
}

// On reports whether authentication is configured.
func (o Options) On() bool { return o.SecretFile != "" || o.CertFile != "" || o.TLS != nil }

// Mode returns the name of the security for a status.
func (o Options) Mode() string {
	switch {
	case !o.On() || o.Plain:
		return "insecure"
	case o.SecretFile != "":
		return "secret"
	}
	return "tls"
}

// Check returns what is wrong with o, and with the files that it names. id may be empty: it is not
// known yet.
func (o Options) Check(cluster, id string) error {
	s := &Security{options: o, cluster: cluster, id: id}
	if err := o.check(); err != nil {
		return err
	}
	_, err := s.load()
	return err
}

// Security makes TLS connections for a member. Its methods may be called from any goroutine.
type Security struct {
	options     Options
	cluster, id string
	current     atomic.Pointer[belief]

	mu     sync.Mutex
	stamps [4]stamp
}

// authority is a source of trust: a secret or certificates.
type authority interface {
	protocol() string
	serving(*tls.ClientHelloInfo) (*tls.Certificate, error)        // this member's, for a client that dials it
	dialing(*tls.CertificateRequestInfo) (*tls.Certificate, error) // this member's, for a server that it dials
	believes(certs []*x509.Certificate, now time.Time) error
	proves(leaf *x509.Certificate, id string) bool
	owner(leaf *x509.Certificate) string // for an error text
}

// belief is the trust that the files define at a time.
type belief struct {
	authorities []authority
	protocols   []string
	stranger    *tls.Certificate // shown to a client with no authority in common; it proves nothing
	server      *tls.Config
	client      *tls.Config
	sessions    sessions
}

// New reads the files of o, for member id of a cluster. nil: there is no security.
func New(cluster, id string, o Options) (*Security, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if !o.On() {
		return nil, nil
	}
	s := &Security{options: o, cluster: cluster, id: id, stamps: o.stamps()}
	b, err := s.load()
	if err != nil {
		return nil, err
	}
	s.current.Store(b)
	return s, nil
}

// Changed reports whether a file differs from the last one that was read. The file counts as read
// from now on.
func (s *Security) Changed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.stamps()
	changed := now != s.stamps
	s.stamps = now
	return changed
}

// Reload reads the files again. After an error the previous state stays in use.
func (s *Security) Reload() error {
	b, err := s.load()
	if err != nil {
		return err
	}
	s.current.Store(b)
	return nil
}

// Plain reports whether members without TLS are accepted.
func (s *Security) Plain() bool { return s.options.Plain }

func (s *Security) load() (*belief, error) {
	b := &belief{sessions: sessions{of: map[string]session{}}}
	if s.options.CertFile != "" || s.options.TLS != nil {
		a, err := s.loadCertificates()
		if err != nil {
			return nil, err
		}
		b.authorities = append(b.authorities, a)
	}
	if s.options.SecretFile != "" {
		all, err := secretAuthorities(s.options.SecretFile, s.cluster, s.id)
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			b.authorities = append(b.authorities, a)
		}
	}
	for _, a := range b.authorities {
		b.protocols = append(b.protocols, a.protocol())
	}
	b.protocols = append(b.protocols, foreign)
	stranger, err := nameless()
	if err != nil {
		return nil, err
	}
	b.stranger = stranger
	b.configure(s.options.TLS)
	return b, nil
}

// configure makes the two TLS configurations. Both ends agree on a common authority by ALPN: each
// authority has a protocol name of its own.
func (b *belief) configure(own *tls.Config) {
	base := &tls.Config{}
	if own != nil {
		base = own.Clone()
	}
	base.MinVersion, base.MaxVersion = tls.VersionTLS13, 0
	base.NextProtos = b.protocols
	base.Certificates, base.GetCertificate, base.GetClientCertificate, base.GetConfigForClient = nil, nil, nil, nil
	base.Renegotiation = tls.RenegotiateNever
	if base.CurvePreferences == nil {
		base.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256}
	}
	further := base.VerifyConnection
	verify := func(cs tls.ConnectionState) error {
		if err := b.verify(cs); err != nil {
			return err
		}
		if further != nil {
			return further(cs)
		}
		return nil
	}
	b.client = base.Clone()
	b.client.InsecureSkipVerify = true // VerifyConnection does: ids are no host names
	b.client.VerifyConnection = verify
	b.server = base
	b.server.ClientAuth = tls.RequireAnyClientCert
	b.server.VerifyConnection = verify
	b.server.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		for _, a := range b.authorities { // in the order in which TLS picks the protocol
			if slices.Contains(hello.SupportedProtos, a.protocol()) {
				return a.serving(hello)
			}
		}
		if slices.Contains(hello.SupportedProtos, foreign) {
			return b.stranger, nil
		}
		return nil, errNoCommon
	}
}

// foreign is the ALPN name on which two members without a common authority agree. The connection
// ends with that, and each has learned that its peer is a member of some cluster, and not an
// unrelated server.
const foreign = "batuta/foreign"

// Foreign reports whether the peer of a connection is a member without a common authority.
func (s *Security) Foreign(cs tls.ConnectionState) bool { return cs.NegotiatedProtocol == foreign }

// nameless makes a certificate without any information on this member.
func nameless() (*tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: newSerial(), NotBefore: now.Add(-secretLife), NotAfter: now.Add(secretLife)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}, err
}

var errNoCommon = errors.New("the two ends believe no authority in common: they have different secrets or certificates, or other clusters' names")

// verify returns nil if the peer of a connection is trusted now.
func (b *belief) verify(cs tls.ConnectionState) error {
	if cs.NegotiatedProtocol == "" || cs.NegotiatedProtocol == foreign {
		return errNoCommon // a client of an unrelated protocol gets this far
	}
	_, err := b.believer(cs.PeerCertificates)
	return err
}

func (b *belief) believer(certs []*x509.Certificate) (a authority, err error) {
	if len(certs) == 0 {
		return nil, errors.New("it shows no certificate")
	}
	now := time.Now()
	var faults []error
	for _, a := range b.authorities {
		err := a.believes(certs, now)
		if err == nil {
			return a, nil
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

// Believes returns nil if the peer of an existing connection is still trusted.
func (s *Security) Believes(cs tls.ConnectionState) error { return s.current.Load().verify(cs) }

// Proves returns nil if the peer of a connection may be member id.
func (s *Security) Proves(cs tls.ConnectionState, id string) error {
	a, err := s.current.Load().believer(cs.PeerCertificates)
	if err != nil {
		return err
	}
	if leaf := cs.PeerCertificates[0]; !a.proves(leaf, id) {
		return fmt.Errorf("the other end is %s, not member %s of cluster %q", a.owner(leaf), id, s.cluster)
	}
	return nil
}

// Server makes the accepting end of a connection.
func (s *Security) Server(nc net.Conn) *tls.Conn { return tls.Server(nc, s.current.Load().server) }

// Client makes the dialing end of a connection to the server at key, where it resumes an earlier
// session.
func (s *Security) Client(nc net.Conn, key string) *tls.Conn {
	b := s.current.Load()
	config := b.client.Clone()
	var agreed string
	var expires time.Time
	verify := b.client.VerifyConnection
	config.VerifyConnection = func(cs tls.ConnectionState) error {
		if err := verify(cs); err != nil {
			b.sessions.forget(key)
			return err
		}
		agreed, expires = cs.NegotiatedProtocol, cs.PeerCertificates[0].NotAfter
		return nil
	}
	config.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		for _, a := range b.authorities {
			if a.protocol() == agreed {
				return a.dialing(asked)
			}
		}
		return nil, errNoCommon
	}
	if config.VerifyPeerCertificate == nil { // it would not be called for a resumed session
		config.ClientSessionCache = &sessionOf{&b.sessions, key, &expires}
	}
	return tls.Client(nc, config)
}

// Forget discards the session with key: the peer rejected this member's certificate.
func (s *Security) Forget(key string) { s.current.Load().sessions.forget(key) }

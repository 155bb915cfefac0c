// Package security authenticates members to each other and encrypts their messages: TLS 1.3 with
// both ends verified, by a shared secret or by certificates.
//
// From a secret and the cluster's name every member derives (HKDF-SHA256) the Ed25519 key of the
// cluster's authority, and issues itself a certificate for its own id. The certificate does not
// show the id, because a server sends its certificate to every client. It has a name that only a
// holder of the secret can match to an id.
package security

import (
	"bytes"
	"context"
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
	SecretFile                string                                  // the cluster's secrets, a line each: all are accepted
	Secrets                   func(context.Context) ([][]byte, error) // gives the lines of such a file instead
	CertFile, KeyFile, CAFile string                                  // this member's certificate and key, and the trusted authorities
	TLS                       *tls.Config                             // a service's own certificates, instead of files
	IDTemplate                string                                  // URI of a member: {cluster} and {id} are replaced; "": see [DefaultTemplate]
	Plain                     bool                                    // members without TLS are accepted too, and dialed without it
}

// ErrSecrets is wrapped by an error that [Options].Secrets gave.
var ErrSecrets = errors.New("Secrets")

// On reports whether authentication is configured.
func (o Options) On() bool { return o.bySecret() || o.CertFile != "" || o.TLS != nil }

func (o Options) bySecret() bool { return o.SecretFile != "" || o.Secrets != nil }

// Mode returns the name of the security for a status.
func (o Options) Mode() string {
	switch {
	case !o.On() || o.Plain:
		return "insecure"
	case o.bySecret():
		return "secret"
	}
	return "tls"
}

// Check returns what is wrong with o, and with the files that it names. It does not call Secrets. id
// may be empty: it is not known yet.
func (o Options) Check(cluster, id string) error {
	if err := o.check(); err != nil {
		return err
	}
	o.Secrets = nil
	s := &Security{options: o, cluster: cluster, id: id}
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
	given  []byte // what Secrets gave last
	fault  error  // and its error
	unread bool   // the last load failed
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
// ctx bounds a call of Secrets.
func New(ctx context.Context, cluster, id string, o Options) (*Security, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if !o.On() {
		return nil, nil
	}
	s := &Security{options: o, cluster: cluster, id: id}
	_, err := s.Reload(ctx, true)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// changed reports whether a file, or what Secrets gives, differs from the last one that was read. It
// counts as read from now on.
func (s *Security) changed(ctx context.Context) bool {
	stamps, given, fault := s.options.stamps(), s.given, s.fault
	if s.options.Secrets != nil {
		var lines [][]byte
		lines, fault = s.options.Secrets(ctx)
		given = bytes.Join(lines, []byte("\n"))
	}
	changed := stamps != s.stamps || !bytes.Equal(given, s.given) || fmt.Sprint(fault) != fmt.Sprint(s.fault)
	s.stamps, s.given, s.fault = stamps, given, fault
	return changed
}

// Reload reads the files and the secrets again, and reports whether they have changed; if not, they
// are taken up only if always is set. After an error the previous state stays in use, and the next
// Reload tries again: the cause may end without a change of a file. An error is returned once for
// each change.
func (s *Security) Reload(ctx context.Context, always bool) (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if changed = s.changed(ctx) || always; !changed && !s.unread {
		return false, nil
	}
	b, err := s.load()
	if s.unread = err != nil; !s.unread {
		s.current.Store(b)
		return true, nil
	}
	if !changed {
		return false, nil
	}
	return true, err
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
	if s.options.bySecret() {
		secrets, err := s.secrets()
		if err != nil {
			return nil, err
		}
		all, err := authoritiesOf(secrets, s.cluster, s.id)
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

func (s *Security) secrets() ([][]byte, error) {
	if s.options.Secrets == nil {
		return readSecrets(s.options.SecretFile)
	}
	if s.fault != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecrets, s.fault)
	}
	secrets, err := parseSecrets(s.given)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", ErrSecrets, err)
	}
	return secrets, nil
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

package security

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"
)

// A secret's certificates are valid for a day after their issue, and for a day before that because
// clocks differ. They are renewed after half a day.
const (
	secretLife  = 24 * time.Hour
	secretRenew = 12 * time.Hour
)

// minSecret is the smallest size of a secret in bytes. Every client sees a certificate that it
// signs, and may test guesses offline.
const minSecret = 32

// NewSecret returns a new secret, as a line of a secret file.
func NewSecret() string {
	b := make([]byte, minSecret)
	rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}

// parseSecrets reads the secrets of a file, a secret per line. Its errors never quote a secret.
func parseSecrets(data []byte) (secrets [][]byte, err error) {
	for i, line := range bytes.Split(data, []byte("\n")) {
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		secret, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(secret) < minSecret {
			return nil, fmt.Errorf("line %d is not a secret: it must be %d random bytes or more in base64, as 'batuta secret new' prints them", i+1, minSecret)
		}
		secrets = append(secrets, secret)
	}
	switch {
	case len(secrets) == 0:
		return nil, errors.New("it holds no secret: make one with 'batuta secret new'")
	case len(secrets) > maxSecrets:
		return nil, fmt.Errorf("it holds %d secrets: at most %d, the one in use first", len(secrets), maxSecrets)
	}
	return secrets, nil
}

// maxSecrets is how many secrets a file may hold: the old and the new secret, and room for a
// mistake.
const maxSecrets = 4

// byName is the suffix of names in a secret's certificates.
const byName = ".batuta"

// secretAuthority is the authority that every holder of the secret derives.
type secretAuthority struct {
	id    string // of this member
	key   ed25519.PrivateKey
	names []byte // key of the HMAC from ids to names
	root  *x509.Certificate
	pool  *x509.CertPool
	tag   string

	mu    sync.Mutex
	cert  *tls.Certificate // the current certificate
	renew time.Time
}

func derive(secret []byte, what, cluster string) []byte {
	key, err := hkdf.Key(sha256.New, secret, []byte("batuta 1 "+what), cluster, 32)
	if err != nil {
		panic(err) // only if the key is too long
	}
	return key
}

func readSecrets(path string) ([][]byte, error) {
	data, err := read(path, "create it with 'batuta secret new > "+path+"'", true)
	if err != nil {
		return nil, err
	}
	secrets, err := parseSecrets(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return secrets, nil
}

// GossipKeys derives the keys of an overlay of super peers, a key per secret in the file; the first
// encrypts. Each overlay has its own keys.
func GossipKeys(path, overlay string) (keys [][]byte, err error) {
	secrets, err := readSecrets(path)
	if err != nil {
		return nil, err
	}
	for _, secret := range secrets {
		keys = append(keys, derive(secret, "gossip", overlay))
	}
	return keys, nil
}

func newSecretAuthority(secret []byte, cluster, id string) (*secretAuthority, error) {
	a := &secretAuthority{
		id: id, names: derive(secret, "names", cluster),
		key: ed25519.NewKeyFromSeed(derive(secret, "authority", cluster)),
	}
	public := a.key.Public().(ed25519.PublicKey)
	sum := sha256.Sum256(public)
	a.tag = "batuta/1+" + hex.EncodeToString(sum[:8])
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: a.tag},
		NotBefore: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: sum[:20],
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, a.key)
	if err != nil {
		return nil, err
	}
	if a.root, err = x509.ParseCertificate(raw); err != nil {
		return nil, err
	}
	a.pool = x509.NewCertPool()
	a.pool.AddCert(a.root)
	return a, nil
}

// name returns the name for an id in the certificate with a serial number.
func (a *secretAuthority) name(serial *big.Int, id string) string {
	mac := hmac.New(sha256.New, a.names)
	fmt.Fprintf(mac, "%x %s", serial, id)
	return hex.EncodeToString(mac.Sum(nil)[:16]) + byName
}

// issue makes a certificate for this member, and returns when to make the next.
func (a *secretAuthority) issue(now time.Time) (*tls.Certificate, time.Time, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, time.Time{}, err
	}
	serial := newSerial()
	template := &x509.Certificate{
		SerialNumber: serial, DNSNames: []string{a.name(serial, a.id)},
		NotBefore: now.Add(-secretLife), NotAfter: now.Add(secretLife),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: memberUsage,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.root, public, a.key)
	if err != nil {
		return nil, time.Time{}, err
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, time.Time{}, err
	}
	return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private, Leaf: leaf}, now.Add(secretRenew), nil
}

// certificate returns the current certificate.
func (a *secretAuthority) certificate() (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if left := a.renew.Sub(now); a.cert != nil && left > 0 && left <= secretRenew { // more: the clock was set back
		return a.cert, nil
	}
	cert, renew, err := a.issue(now)
	if err == nil {
		a.cert, a.renew = cert, renew
	}
	return cert, err
}

func (a *secretAuthority) protocol() string { return a.tag }

func (a *secretAuthority) serving(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return a.certificate()
}

func (a *secretAuthority) dialing(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return a.certificate()
}

func (a *secretAuthority) believes(certs []*x509.Certificate, now time.Time) error {
	if err := chain(a.pool, certs[:1], x509.VerifyOptions{CurrentTime: now}); err != nil {
		return fmt.Errorf("not by the secret: %w", err)
	}
	return nil
}

// proves reports whether a certificate that this authority has issued is for id.
func (a *secretAuthority) proves(leaf *x509.Certificate, id string) bool {
	return len(leaf.DNSNames) == 1 && hmac.Equal([]byte(leaf.DNSNames[0]), []byte(a.name(leaf.SerialNumber, id)))
}

// owner distinguishes this member's own certificates from certificates of the remaining members,
// which hide their ids.
func (a *secretAuthority) owner(leaf *x509.Certificate) string {
	if a.proves(leaf, a.id) {
		return "this member itself"
	}
	return "another member with the same secret"
}

func newSerial() *big.Int {
	b := make([]byte, 16)
	rand.Read(b)
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b)
}

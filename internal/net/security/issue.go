package security

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"
)

// Authority is a small certificate authority, for tests and small clusters.
type Authority struct {
	Cluster string
	Cert    *x509.Certificate
	key     *ecdsa.PrivateKey
}

// NewAuthority makes an authority that lasts for life.
func NewAuthority(cluster string, life time.Duration) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: newSerial(), Subject: pkix.Name{CommonName: "batuta cluster " + cluster},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	return &Authority{cluster, cert, key}, err
}

// LoadAuthority reads the files of an authority.
func LoadAuthority(cluster, certFile, keyFile string) (*Authority, error) {
	pair, err := LoadPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s is no authority that 'batuta tls ca' has made", certFile)
	}
	return &Authority{cluster, pair.Leaf, key}, nil
}

// Request describes a certificate to issue.
type Request struct {
	ID       string   // of the member; empty: a client, which is no member
	Hosts    []string // names and addresses of its host, for clients of its HTTP API
	From, To time.Time
}

// Issue makes a certificate for a member.
func (a *Authority) Issue(r Request) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(), Subject: pkix.Name{CommonName: r.ID}, NotBefore: r.From, NotAfter: r.To,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if r.ID != "" {
		name := naming{cluster: a.Cluster}.uri(DefaultTemplate, r.ID)
		uri, err := url.Parse(name)
		if err != nil {
			return nil, fmt.Errorf("%q is no URI: name the cluster with letters, digits and '-'", name)
		}
		template.URIs, template.ExtKeyUsage = []*url.URL{uri}, memberUsage
	}
	for _, host := range r.Hosts {
		if addr, err := netip.ParseAddr(host); err == nil {
			template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.Cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: leaf}, nil
}

// Pair returns the authority's own certificate with its key.
func (a *Authority) Pair() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{a.Cert.Raw}, PrivateKey: a.key, Leaf: a.Cert}
}

// PEM encodes a certificate and its key as in files.
func PEM(c *tls.Certificate) (cert, key []byte, err error) {
	private, ok := c.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("its key is of another kind")
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	for _, raw := range c.Certificate {
		cert = append(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})...)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

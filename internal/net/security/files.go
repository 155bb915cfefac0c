package security

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// maxFile bounds the bytes that are read of a file.
const maxFile = 1 << 20

// ReadPrivate reads a file that holds a secret. It refuses a file that users besides its owner may
// read or write. A file of a different owner, such as root, may be readable by the group.
func ReadPrivate(path string) ([]byte, error) { return read(path, "create it", true) }

// read reads a file; its error proposes create if there is no such file.
func read(path, create string, private bool) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe would wait
	if err != nil {
		return nil, unread(path, create, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && private && tooOpen(info) {
		return nil, fmt.Errorf("%s can be read or changed by others (mode %04o): run 'chmod 600 %s'", path, info.Mode().Perm(), path)
	}
	data, failed := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch err = cmp.Or(err, failed); {
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	case len(data) == 0 && info != nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file, and could not be read again: name one", path)
	}
	return data, err
}

// unread adds what to do to the error of a file that cannot be opened.
func unread(path, create string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; %s, or correct its name", err, create)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; this process runs as user %d: chown %d %s", err, os.Geteuid(), os.Geteuid(), path)
	}
	return err
}

// LoadPair reads a certificate and its key.
func LoadPair(certFile, keyFile string) (*tls.Certificate, error) {
	cert, err := read(certFile, "create it", false)
	if err != nil {
		return nil, err
	}
	key, err := ReadPrivate(keyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w; give a certificate and the key that was made for it", certFile, keyFile, err)
	}
	return &pair, nil
}

// LoadPool reads the certificates of authorities.
func LoadPool(path string) (*x509.CertPool, error) {
	data, err := read(path, "create it", false)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form: name the file of the authority, such as ca.pem", path)
	}
	return pool, nil
}

// stamp identifies a state of a file.
type stamp struct {
	size     int64
	modified int64
	mode     os.FileMode
	err      bool
}

func (o Options) stamps() (all [4]stamp) {
	for i, path := range []string{o.SecretFile, o.CertFile, o.KeyFile, o.CAFile} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			all[i].err = true
			continue
		}
		all[i] = stamp{info.Size(), info.ModTime().UnixNano(), info.Mode(), false}
	}
	return all
}

func (o Options) check() error {
	given := 0
	for _, path := range []string{o.CertFile, o.KeyFile, o.CAFile} {
		if path != "" {
			given++
		}
	}
	switch {
	case o.SecretFile != "" && o.Secrets != nil:
		return errors.New("SecretFile and Secrets: give one of them")
	case given != 0 && given != 3:
		return errors.New("CertFile, KeyFile and CAFile go together: give all three")
	case given != 0 && o.TLS != nil:
		return errors.New("certificate files and a TLS configuration: give one of them")
	case o.IDTemplate != "" && given == 0 && o.TLS == nil:
		return errors.New("a template of ids goes with certificates: give those too, or leave it out")
	case o.IDTemplate != "":
		return checkTemplate(o.IDTemplate)
	}
	return nil
}

package initial

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/net/security"
)

// The files of a machine. A machine has them in /etc, where the packaged unit reads them.
const (
	configFile = "batuta.yaml"
	secretFile = "batuta.key"
	certFile   = "batuta.pem"
	keyFile    = "batuta-key.pem"
	caFile     = "batuta-ca.pem"

	// Of the authority, as "batuta tls issue" reads them.
	authorityFile    = "ca.pem"
	authorityKeyFile = "ca-key.pem"
)

// How long certificates are valid, as those of "batuta tls" are.
const (
	authorityYears = 10
	memberYears    = 1
)

// file is yet to be written.
type file struct {
	path string // below the directory of the plan
	data []byte
}

// settings are a member's configuration, by the names of the agent's flags.
type settings struct {
	Cluster   string   `yaml:"cluster"`
	ID        string   `yaml:"id"`
	Listen    string   `yaml:"listen"`
	Advertise string   `yaml:"advertise,omitempty"`
	Member    []string `yaml:"member"`
	Algorithm string   `yaml:"algorithm,omitempty"`
	DataDir   string   `yaml:"data-dir"`
	HTTP      string   `yaml:"http"`
	Reached   string   `yaml:"http-advertise,omitempty"`
	Secret    string   `yaml:"secret-file,omitempty"`
	Cert      string   `yaml:"tls-cert,omitempty"`
	Key       string   `yaml:"tls-key,omitempty"`
	CA        string   `yaml:"tls-ca,omitempty"`
}

// files makes what is to be written.
func (p *plan) files(now time.Time) ([]file, error) {
	var all []file
	for i, m := range p.members {
		text, err := yaml.Marshal(p.settings(i, m))
		if err != nil {
			return nil, err
		}
		head := fmt.Sprintf("# Member %s of cluster %s: the file %s of its machine.\n", m.id, p.cluster, p.home(m, configFile))
		all = append(all, file{filepath.Join(m.name(), configFile), append([]byte(head), text...)})
	}
	if p.tls {
		return p.certificates(all, now)
	}
	secret := security.NewSecret() + "\n"
	for _, m := range p.members {
		all = append(all, file{filepath.Join(m.name(), secretFile), []byte(secret)})
	}
	return all, nil
}

func (p *plan) settings(i int, m member) settings {
	s := settings{Cluster: p.cluster, ID: m.name(), DataDir: "/var/lib/batuta", HTTP: "127.0.0.1:7500"}
	s.Listen, s.Advertise = m.listen()
	for _, other := range p.members {
		s.Member = append(s.Member, other.name()+"="+other.addr)
	}
	if p.local {
		s.DataDir, s.HTTP = p.home(m, "data"), fmt.Sprintf("127.0.0.1:%d", 7500+i) // its file finds its agent
		s.Reached = s.HTTP
	}
	if p.quorum {
		s.Algorithm = "quorum"
	}
	if p.tls {
		s.Cert, s.Key, s.CA = p.home(m, certFile), p.home(m, keyFile), p.home(m, caFile)
	} else {
		s.Secret = p.home(m, secretFile)
	}
	return s
}

// home is where a file of a member is when the member runs.
func (p *plan) home(m member, name string) string {
	if p.local {
		return filepath.Join(p.dir, m.name(), name)
	}
	return "/etc/" + name
}

// certificates adds those of an authority and its members.
func (p *plan) certificates(all []file, now time.Time) ([]file, error) {
	authority, err := security.NewAuthority(p.cluster, now.AddDate(authorityYears, 0, 0).Sub(now))
	if err != nil {
		return nil, err
	}
	ca, caKey, err := security.PEM(authority.Pair())
	if err != nil {
		return nil, err
	}
	all = append(all, file{authorityKeyFile, caKey}, file{authorityFile, ca})
	for _, m := range p.members {
		pair, err := authority.Issue(security.Request{ID: m.name(), Hosts: []string{m.host}, From: now.Add(-time.Hour), To: now.AddDate(memberYears, 0, 0)})
		if err != nil {
			return nil, cli.Usagef("%w", err)
		}
		cert, key, err := security.PEM(pair)
		if err != nil {
			return nil, err
		}
		dir := m.name()
		all = append(all, file{filepath.Join(dir, certFile), cert}, file{filepath.Join(dir, keyFile), key}, file{filepath.Join(dir, caFile), ca})
	}
	return all, nil
}

// write writes the files, and replaces none. What it has written it removes again if it cannot
// write all.
func (p *plan) write(all []file) (err error) {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return cli.Usagef("--dir: %w; give a directory that can be made", err)
	}
	var made []string
	defer func() {
		for _, path := range made {
			if err != nil {
				err = errors.Join(err, os.RemoveAll(path))
			}
		}
	}()
	for _, m := range p.members {
		dir := filepath.Join(p.dir, m.name())
		if err := os.Mkdir(dir, 0o700); err != nil {
			return unwritten(dir, err)
		}
		made = append(made, dir)
	}
	for _, f := range all {
		path := filepath.Join(p.dir, f.path)
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return unwritten(path, err)
		}
		made = append(made, path)
		_, err = out.Write(f.data)
		if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
			return cli.Exit(cli.Failed, err)
		}
	}
	return nil
}

func unwritten(path string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return cli.Usagef("%s is there already, and nothing was written: move it away first, or give another --dir", path)
	}
	return cli.Usagef("%w; give a --dir in which you may write", err)
}

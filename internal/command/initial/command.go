// Package initial writes what the machines of a new cluster need: a configuration for each,
// and the cluster's secret or certificates.
package initial

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// NewCommand is "batuta init", which prints to out.
func NewCommand(out io.Writer) *cobra.Command {
	var p plan
	var members []string
	var secret bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write the configuration of each machine of a new cluster",
		Long: `init writes a directory for each member: its batuta.yaml, and the cluster's secret or the
member's certificates. It prints which directory to copy to which machine, and the commands
that start the packaged unit there. It replaces no file, and connects to no machine.

A member is NAME, NAME:PORT or ID=HOST:PORT; the port is 7400 unless given, and the id of
NAME is NAME. With all members on loopback, the files are for a trial on this machine.`,
		Example: `  batuta init --members db1,db2,db3 --quorum --dir payments
  batuta init --members 1=10.0.0.1:7400,2=10.0.0.2:7400,3=10.0.0.3:7400 --tls`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch given := cmd.Flags().Changed("secret"); {
			case given && secret == p.tls:
				return cli.Usagef("--secret and --tls: give one of them; without either, members share a secret")
			case !cmd.Flags().Changed("members"):
				return cli.Usagef("which machines? as in: batuta init --members db1,db2,db3")
			}
			return p.run(members, out)
		},
	}
	fs := cmd.Flags()
	cli.ListVar(fs, &members, "members", "`LIST` of the members: NAME, NAME:PORT or ID=HOST:PORT, with commas between")
	fs.StringVar(&p.cluster, "cluster", "default", "`NAME` of the cluster")
	fs.BoolVar(&p.quorum, "quorum", false, "never two leaders: the algorithm is quorum, not bully")
	fs.BoolVar(&secret, "secret", true, "members prove themselves by a shared secret")
	fs.BoolVar(&p.tls, "tls", false, "members prove themselves by certificates instead")
	fs.StringVar(&p.dir, "dir", ".", "`DIR` of the files, made if it is not there")
	return cmd
}

func (p *plan) run(members []string, out io.Writer) error {
	if err := p.parseMembers(members); err != nil {
		return err
	}
	if err := checkCluster(p.cluster); err != nil {
		return err
	}
	shown := p.dir
	dir, err := filepath.Abs(p.dir)
	if err != nil {
		return err
	}
	p.dir = dir
	all, err := p.files(time.Now())
	if err != nil {
		return err
	}
	if err := p.write(all); err != nil {
		return err
	}
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintln(&b, filepath.Join(shown, f.path))
	}
	p.next(&b, shown)
	_, err = io.WriteString(out, b.String())
	return err
}

// next prints what to do with the files, which are below dir.
func (p *plan) next(b *strings.Builder, dir string) {
	config := func(m member) string { return quoted(filepath.Join(dir, m.name(), configFile)) }
	if p.local {
		b.WriteString("\nStart each member in a terminal of its own:\n")
		for _, m := range p.members {
			fmt.Fprintf(b, "  batuta agent --config %s\n", config(m))
		}
	} else {
		b.WriteString("\nInstall the package on each machine. Then copy each directory to its machine, and start the unit:\n")
		for _, m := range p.members {
			host := m.host
			if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
				host = "[" + host + "]"
			}
			from := filepath.Join(dir, m.name())
			if !filepath.IsAbs(from) && strings.Contains(from, ":") {
				from = "./" + from // which scp takes as no machine
			}
			fmt.Fprintf(b, "  scp -p %s/batuta* %s\n", quoted(from), quoted("root@"+host+":/etc/"))
			fmt.Fprintf(b, "  ssh root@%s 'systemd-sysusers && chown batuta /etc/batuta* && systemctl enable --now batuta'\n", m.host)
		}
	}
	if p.local {
		fmt.Fprintf(b, "\nThen check them, and ask which member leads:\n  batuta check --config %s\n  batuta status --all --config %[1]s\n", config(p.members[0]))
	} else {
		b.WriteString("\nThen check on each machine, and ask which member leads:\n  sudo -u batuta batuta check --config /etc/batuta.yaml\n  batuta status\n")
	}
	if p.tls {
		fmt.Fprintf(b, "\nA process with %s can act as any member: keep it, and away from the machines. It issues the next\ncertificates: batuta tls issue ID --cluster %s --dir %s. Those of the members end in a year.\n",
			filepath.Join(dir, authorityKeyFile), quoted(p.cluster), quoted(dir))
	} else if !p.local {
		fmt.Fprintf(b, "\nA process with %s can act as any member. Remove the directories here once each machine has its own.\n", secretFile)
	}
	if p.quorum && len(p.members)%2 == 0 {
		n := len(p.members)
		fmt.Fprintf(b, "\n%d members survive the loss of %d, and so would %d: three or five are better.\n", n, (n-1)/2, n-1)
	}
}

// plan is a cluster to be.
type plan struct {
	cluster, dir string
	members      []member
	quorum, tls  bool
	local        bool // all members are on this machine, for a trial: the files stay where they are
}

// member is a machine of the plan.
type member struct {
	id   election.ID
	host string // a name or an IP address, without brackets
	addr string // HOST:PORT
}

const (
	defaultPort = "7400"
	mostMembers = 64 // as many as quorum has
)

// parseMembers reads the members of --members.
func (p *plan) parseMembers(items []string) error {
	if len(items) < 2 || len(items) > mostMembers {
		return cli.Usagef("--members has %d: name 2 to %d machines, such as db1,db2,db3", len(items), mostMembers)
	}
	ids, hosts, loopbacks := map[election.ID]bool{}, map[string]bool{}, 0
	for _, item := range items {
		m, err := parseMember(item)
		if err != nil {
			return cli.Usagef("--members %q: %w", item, err)
		}
		if ids[m.id] {
			return cli.Usagef("--members: the id %s is given twice; give each member its own, as ID=HOST:PORT", m.id)
		}
		if len(p.members) > 0 && p.members[0].id.Kind() != m.id.Kind() {
			return cli.Usagef("--members: the ids %s and %s are of two kinds; give all of one kind, such as numbers, as ID=HOST:PORT",
				p.members[0].id, m.id)
		}
		if api.Loopback(m.addr) {
			loopbacks++
		}
		ids[m.id], hosts[m.host] = true, true
		p.members = append(p.members, m)
	}
	p.local = loopbacks == len(items)
	switch {
	case p.local:
		return p.checkPorts()
	case loopbacks > 0:
		return cli.Usagef("--members: no other machine reaches a member on loopback; give the machine's own address")
	case len(hosts) < len(items):
		return cli.Usagef("--members: two members have the same host; one fault would end both: give each a machine of its own")
	}
	return nil
}

// checkCluster finds what no agent would take as the cluster's name.
func checkCluster(name string) error {
	if !election.Printable(name, election.MaxID) || name == "" {
		return cli.Usagef("--cluster %q: give a name of 1 to %d bytes that prints, such as payments", name, election.MaxID)
	}
	return nil
}

// checkPorts finds two members on this machine that cannot listen both.
func (p *plan) checkPorts() error {
	seen := map[string]bool{}
	for _, m := range p.members {
		if seen[m.addr] {
			return cli.Usagef("--members: %s is given twice; give each member a port of its own, as ID=HOST:PORT", m.addr)
		}
		seen[m.addr] = true
	}
	return nil
}

// parseMember reads NAME, NAME:PORT or ID=HOST:PORT.
func parseMember(item string) (member, error) {
	name, at, both := strings.Cut(item, "=")
	if !both {
		at = item
	}
	host, port := at, defaultPort
	if _, err := netip.ParseAddr(at); err != nil && strings.Contains(at, ":") {
		if host, port, err = net.SplitHostPort(at); err != nil {
			return member{}, fmt.Errorf("write NAME, NAME:PORT or ID=HOST:PORT, such as db1 or 1=10.0.0.1:7400")
		}
	}
	if !both {
		name = host
	}
	id, err := election.ParseID(name)
	if err != nil {
		return member{}, err
	}
	if id := string(id); !filepath.IsLocal(id) || strings.ContainsAny(id, `,"\`) {
		return member{}, fmt.Errorf("no directory can have the id %q as its name; give another, as ID=HOST:PORT", id)
	}
	addr := net.JoinHostPort(host, port)
	if err := election.CheckAddress(addr); err != nil {
		return member{}, fmt.Errorf("%q is no address: %w; write NAME, NAME:PORT or ID=HOST:PORT", at, err)
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return member{}, fmt.Errorf("%s names no machine; give the address at which the others reach it", host)
	}
	return member{id, host, addr}, nil
}

// name is the member's directory and, in certificates, the member.
func (m member) name() string { return string(m.id) }

// listen is where the member listens, and what it publishes instead; "": the same. A name may
// mean loopback on its own machine, so a member with a name listens at every address.
func (m member) listen() (listen, advertise string) {
	if _, err := netip.ParseAddr(m.host); err == nil || api.Loopback(m.addr) {
		return m.addr, ""
	}
	_, port, _ := net.SplitHostPort(m.addr) // parseMember has put it together
	return "0.0.0.0:" + port, m.addr
}

var plain = regexp.MustCompile(`^[A-Za-z0-9._/:@%+][A-Za-z0-9._/:@%+-]*$`)

// quoted is text as a shell reads it, unsplit.
func quoted(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

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
	s := settings{Cluster: p.cluster, ID: m.name(), DataDir: "/var/lib/batuta", HTTP: apiAddress(0, m)}
	s.Listen, s.Advertise = m.listen()
	for _, other := range p.members {
		s.Member = append(s.Member, other.name()+"="+other.addr)
	}
	if p.local {
		s.DataDir, s.HTTP = p.home(m, "data"), apiAddress(i, p.members...) // its file finds its agent
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

// apiAddress is where the API of the member at that place is: from 7500 on, at a port of none of those members.
func apiAddress(place int, members ...member) string {
	for port := 7500; ; port++ {
		if slices.ContainsFunc(members, func(m member) bool { return strings.HasSuffix(m.addr, fmt.Sprintf(":%d", port)) }) {
			continue
		} else if place == 0 {
			return fmt.Sprintf("127.0.0.1:%d", port)
		}
		place--
	}
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

package initial

import (
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/command/cli"
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
	fs.StringSliceVar(&members, "members", nil, "`LIST` of the members: NAME, NAME:PORT or ID=HOST:PORT, with commas between")
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

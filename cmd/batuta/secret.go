package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/net/security"
)

func newSecretCommand(e cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "secret",
		Short:   "Create a cluster secret or an API token",
		Example: "  batuta secret new > cluster.key",
	}, &cobra.Command{
		Use:   "new",
		Short: "Print a fresh secret for --secret-file, or a token for --http-token-file",
		Long: `new prints 32 random bytes in base64. If standard output is a file, only its owner can read it
then. Copy the file to every member, and give each --secret-file. Any process that has the
secret can be any member.

To change it, add a new secret as a second line of the file on every machine. Then remove the
old one. Members read the file again by themselves.`,
		Example: `  batuta secret new > cluster.key
  batuta agent --secret-file cluster.key`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := closed(e.Stdout); err != nil {
				return err
			}
			_, err := fmt.Fprintln(e.Stdout, security.NewSecret())
			return err
		},
	})
}

// closed makes a file that is written to readable only by its owner.
func closed(out io.Writer) error {
	f, ok := out.(*os.File)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return f.Chmod(0o600)
}

func newTLSCommand(e cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "tls",
		Short: "Create certificates",
		Example: `  batuta tls ca --cluster payments
  batuta tls issue 1 --cluster payments --host 10.0.0.1`,
	}, newTLSCACommand(e), newTLSIssueCommand(e))
}

// pki is where certificates are made.
type pki struct {
	cluster, dir string
	days         int
}

func (p *pki) register(cmd *cobra.Command, days int) {
	cmd.Flags().StringVar(&p.cluster, "cluster", "default", "`NAME` of the cluster")
	cmd.Flags().StringVar(&p.dir, "dir", ".", "`DIR` of the files")
	cmd.Flags().IntVar(&p.days, "days", days, "valid for `N` days")
}

func (p *pki) check() error {
	if p.days < 1 || p.days > 36500 {
		return cli.Usagef("--days %d: give 1 to 36500", p.days)
	}
	return nil
}

func newTLSCACommand(e cli.Env) *cobra.Command {
	var p pki
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Make an authority: ca.pem for members, and ca-key.pem",
		Long: `ca makes the authority for the certificates of "batuta tls issue", and its directory if it is
not there, which only its owner can read. Give every member ca.pem as --tls-ca. Any process that
has ca-key.pem can be any member: keep it on no member's machine.`,
		Example: "  batuta tls ca --cluster payments --dir pki",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := p.check(); err != nil {
				return err
			}
			a, err := security.NewAuthority(p.cluster, time.Duration(p.days)*24*time.Hour)
			if err != nil {
				return err
			}
			cert, key, err := security.PEM(a.Pair())
			if err != nil {
				return err
			}
			if err := os.MkdirAll(p.dir, 0o700); err != nil {
				return cli.Usagef("--dir: %w", err)
			}
			return p.write(e, "ca", cert, key)
		},
	}
	p.register(cmd, 3650)
	return cmd
}

func newTLSIssueCommand(e cli.Env) *cobra.Command {
	var p pki
	var hosts []string
	cmd := &cobra.Command{
		Use:   "issue ID",
		Short: "Issue a member's certificate: ID.pem and ID-key.pem",
		Long: `issue makes a certificate that names member ID of the cluster, by the authority in
ca.pem and ca-key.pem. Give that member the two files as --tls-cert and --tls-key.`,
		Example: "  batuta tls issue 1 --cluster payments --dir pki --host 10.0.0.1 --host db1.example",
		Args:    cli.Exactly("ID", "1"),
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := election.ParseID(args[0])
			if err != nil {
				return cli.Usagef("%w", err)
			}
			if err := p.check(); err != nil {
				return err
			}
			a, err := security.LoadAuthority(p.cluster, filepath.Join(p.dir, "ca.pem"), filepath.Join(p.dir, "ca-key.pem"))
			if err != nil {
				return cli.Usagef("%w ('batuta tls ca' makes an authority)", err)
			}
			now := time.Now()
			pair, err := a.Issue(security.Request{ID: string(id), Hosts: hosts, From: now.Add(-time.Hour), To: now.AddDate(0, 0, p.days)})
			if err != nil {
				return cli.Usagef("%w", err)
			}
			cert, key, err := security.PEM(pair)
			if err != nil {
				return err
			}
			return p.write(e, fileName(string(id)), cert, key)
		},
	}
	cli.ListVar(cmd.Flags(), &hosts, "host", "`NAME` or address under which its HTTP API is asked; repeatable")
	p.register(cmd, 365)
	return cmd
}

// fileName is an id as a file's name.
func fileName(id string) string { return strings.ReplaceAll(id, string(filepath.Separator), "_") }

// write writes a certificate and its key, and replaces neither. It leaves both or none.
func (p *pki) write(e cli.Env, name string, cert, key []byte) (err error) {
	var made []string
	defer func() {
		for _, path := range made {
			if err != nil {
				err = errors.Join(err, os.Remove(path))
			}
		}
	}()
	for _, f := range []struct {
		path string
		data []byte
		mode fs.FileMode
	}{{name + "-key.pem", key, 0o600}, {name + ".pem", cert, 0o644}} {
		path := filepath.Join(p.dir, f.path)
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
		if errors.Is(err, fs.ErrExist) {
			return cli.Usagef("%s is there already: move it away first, or give another --dir", path)
		}
		if err != nil {
			return cli.Usagef("%w", err)
		}
		made = append(made, path)
		_, err = out.Write(f.data)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(e.Stdout, strings.Join(made, "\n"))
	return err
}

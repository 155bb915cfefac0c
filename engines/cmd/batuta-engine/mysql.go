package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"net"
	"net/url"
	"strings"
	"time"

	client "github.com/go-sql-driver/mysql"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/mysql"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

type mysqlFlags struct {
	url, ca, password string // ca and password are files
}

func (f *mysqlFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.url, "mysql", "", "`URL` of MySQL or MariaDB, such as mysql://user@host:3306/database; with ?tls=true by TLS")
	fs.StringVar(&f.ca, "mysql-ca", "", "`FILE` with the authorities to accept for MySQL (default the system's)")
	fs.StringVar(&f.password, "mysql-password-file", "", "`FILE` with the user's password, mode 0600; read again at each connection")
}

func (f *mysqlFlags) extra() bool { return f.ca+f.password != "" }

// open gives the engine. The URL is not printed: it may hold a password.
func (f *mysqlFlags) open(election string, lease time.Duration) (engines.Engine, error) {
	u, err := url.Parse(f.url)
	if err != nil || u.Scheme != "mysql" || u.Hostname() == "" || u.User.Username() == "" || len(strings.Trim(u.Path, "/")) == 0 {
		return nil, cli.Usagef("--mysql: give a URL such as mysql://user@host:3306/database")
	}
	if _, secret := u.User.Password(); secret {
		return nil, cli.Usagef("--mysql: a URL holds no password; give --mysql-password-file FILE")
	}
	secured := u.RawQuery == "tls=true"
	if !secured && u.RawQuery != "" {
		return nil, cli.Usagef("--mysql: a URL ends with ?tls=true, or has no ?")
	}
	config := client.NewConfig()
	config.User, config.DBName, config.Net, config.Addr = u.User.Username(), strings.Trim(u.Path, "/"), "tcp", u.Host
	config.Timeout, config.Logger = 2*time.Second, &client.NopLogger{}
	config.Params, config.RejectReadOnly = map[string]string{"autocommit": "1"}, true
	if u.Port() == "" {
		config.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	flags := "no --mysql-password-file is given"
	if f.password != "" {
		if _, err := readPassword(f.password); err != nil {
			return nil, cli.Usagef("--mysql-password-file: %w", err)
		}
		flags = "--mysql, --mysql-password-file"
		if err := config.Apply(client.BeforeConnect(func(_ context.Context, c *client.Config) (err error) {
			c.Passwd, err = readPassword(f.password)
			return err
		})); err != nil {
			return nil, cli.Usagef("--mysql: %w", err)
		}
	}
	if f.ca != "" && !secured {
		return nil, cli.Usagef("--mysql: --mysql-ca is given; write ?tls=true at the end of the URL")
	}
	if secured {
		roots, err := authorities("--mysql-ca", f.ca)
		if err != nil {
			return nil, err
		}
		config.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: u.Hostname()}
	}
	connector, err := client.NewConnector(config)
	if err != nil {
		return nil, cli.Usagef("--mysql: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(3)
	db.SetConnMaxLifetime(min(cmp.Or(lease, time.Minute), time.Minute)) // the address may come to lead to a different server
	return held{mysql.New(db, election), db.Close, flags, nil}, nil
}

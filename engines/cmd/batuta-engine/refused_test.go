package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/hashicorp/consul/api"
	"github.com/redis/go-redis/v9"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
	"github.com/batuta-dev/batuta/engines/mysql"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// passwords writes a file for each of those, under its name, and gives the directory.
func passwords(t *testing.T, all ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range all {
		if err := os.WriteFile(filepath.Join(dir, p), []byte(p+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// refused expects each command to end with exit code 1 and a line that has the sentence.
func refused(t *testing.T, sentence string, commands []string, flags ...string) {
	t.Helper()
	for _, command := range commands {
		args := append([]string{command}, flags...)
		switch command {
		case "run":
			args = append(args, "--http", "off", "--", "true")
		case "agent":
			args = append(args, "--http", "off")
		}
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), enginetest.Patience)
		cmd := exec.CommandContext(ctx, os.Args[0], args...)
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		cancel()
		if code := cmd.ProcessState.ExitCode(); code != cli.Failed || strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), sentence) {
			t.Errorf("%q ends with %d (%v): %s", args, code, err, out.String())
		}
	}
}

// candidateOf is a candidate on the engine that the flags name.
func candidateOf(t *testing.T, flags engineFlags) *engines.Election {
	t.Helper()
	flags.election = cmp.Or(flags.election, "default")
	engine, err := flags.open()
	if err != nil {
		t.Fatal(err)
	}
	return enginetest.Start(t, engine, engines.Config{ID: "1", StandAlways: true})
}

var (
	all       = []string{"run", "agent", "watch", "status"}
	candidacy = []string{"run", "agent"}
)

// Users of NATS without the password or a permission get one sentence. The password of the file is read again.
func TestNatsRefuses(t *testing.T) {
	t.Parallel()
	users := func(app string) string {
		return fmt.Sprintf(`authorization { users: [
			{ user: app, password: %s }
			{ user: reader, password: reader, permissions: { publish: ["$JS.API.STREAM.INFO.>", "$JS.API.STREAM.MSG.GET.>", "$JS.API.CONSUMER.>"], subscribe: ["_INBOX.>"] } }
			{ user: stranger, password: stranger, permissions: { publish: "x", subscribe: ["_INBOX.>"] } }
		] }`, app)
	}
	c := enginetest.ServeNats(t, 1, users("app"))
	dir := passwords(t, "app", "reader", "stranger", "wrong")
	flags := func(user, password string) []string {
		return []string{"--nats", "nats://" + c.Addrs[0], "--nats-user", user, "--nats-password-file", filepath.Join(dir, password)}
	}
	e := candidateOf(t, engineFlags{nats: natsFlags{urls: []string{c.Addrs[0]}, bucket: "batuta", replicas: 1, user: "app", password: filepath.Join(dir, "app")}})
	first := enginetest.Leads(t, batuta.Token{}, e).Leader().Token

	refused(t, "no --nats-user, --nats-password-file or --nats-creds is given: NATS refuses the credentials", all, "--nats", c.Addrs[0])
	refused(t, "--nats-user app, --nats-password-file: NATS refuses the credentials", all, flags("app", "wrong")...)
	refused(t, "NATS denies the user bucket batuta: allow it", all, flags("stranger", "stranger")...)
	refused(t, "NATS denies the user bucket batuta: allow it", candidacy, flags("reader", "reader")...)
	if code, said := ask(append([]string{"leader"}, flags("reader", "reader")...)...); code != cli.Done {
		t.Errorf("leader, of a user that may read, ends with %d: %s", code, said)
	}

	text, err := os.ReadFile(c.Files[0])
	if err == nil {
		err = os.WriteFile(c.Files[0], bytes.Replace(text, []byte("password: app"), []byte("password: new"), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Servers[0].Signal(syscall.SIGHUP) // it reads its configuration again
	enginetest.Reports(t, e, "NATS refuses the credentials")
	if err := os.WriteFile(filepath.Join(dir, "app"), []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	enginetest.Leads(t, first, e)
}

// Users of Kubernetes without credentials or rights get one sentence. One that may read can ask for the leader.
func TestKubernetesRefuses(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeKubernetes(t)
	flags := func(token string) []string {
		return []string{"--kubernetes", "default", "--kubeconfig", s.As(token).Kubeconfig(t, s.Addr)}
	}
	enginetest.Leads(t, batuta.Token{}, candidateOf(t, engineFlags{kubernetes: "default", kubeconfig: flags("")[3]}))
	const needs = "a candidate needs the verbs get, create, update and watch on Lease default"
	refused(t, "--kubernetes default: Kubernetes refuses the credentials", all, flags("unknown")...)
	refused(t, needs, all, flags(enginetest.Stranger)...)
	if s.CA != "" {
		return // there is no reader
	}
	refused(t, needs, candidacy, flags(enginetest.Reader)...)
	if code, said := ask(append([]string{"leader"}, flags(enginetest.Reader)...)...); code != cli.Done {
		t.Errorf("leader, of a user that may read, ends with %d: %s", code, said)
	}
}

// Users of Redis that lack the password or a permission get one sentence. The password of the file is read again.
func TestRedisRefuses(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeRedis(t, strings.Fields("--user default off --user admin on >admin ~* &* +@all --user stranger on >stranger ~x +get "+
		"--user app on >app ~batuta:* &batuta:* +eval +evalsha +subscribe +publish +hmget +hset +hincrby +info +time")...)
	dir := passwords(t, "app", "stranger", "wrong")
	flags := func(user, password string) []string {
		return []string{"--redis", s.Addr, "--redis-user", user, "--redis-password-file", filepath.Join(dir, password)}
	}
	e := candidateOf(t, engineFlags{redis: redisFlags{addr: s.Addr, user: "app", password: filepath.Join(dir, "app")}})
	first := enginetest.Leads(t, batuta.Token{}, e).Leader().Token

	refused(t, "no --redis-user and --redis-password-file are given: Redis requires a password", all, "--redis", s.Addr)
	refused(t, "--redis-user app, --redis-password-file: Redis refuses the user or the password", all, flags("app", "wrong")...)
	refused(t, "Redis denies the user key batuta:default: allow it", all, flags("stranger", "stranger")...)

	admin := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "admin", Password: "admin"})
	defer admin.Close()
	for _, rules := range [][]any{{"ACL", "SETUSER", "app", "resetpass", ">new"}, {"CLIENT", "KILL", "USER", "app"}} {
		if err := admin.Do(t.Context(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	enginetest.Reports(t, e, "Redis refuses the user or the password")
	if err := os.WriteFile(filepath.Join(dir, "app"), []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	enginetest.Leads(t, first, e)
}

// mysqlWithApp is a server with the tables and a user app, which has the rights that a candidate needs. It does not commit by
// itself.
func mysqlWithApp(t *testing.T, statements ...string) (*enginetest.MySQL, *sql.DB) {
	t.Helper()
	s := enginetest.ServeMySQL(t)
	db := enginetest.DialMySQL(t, s.Addr)
	for _, statement := range slices.Concat(mysql.Schema, []string{
		"CREATE USER app IDENTIFIED BY 'app'", "GRANT SELECT, INSERT, UPDATE ON batuta.batuta_elections TO app", "GRANT SELECT, INSERT, UPDATE ON batuta.batuta_epochs TO app",
		"SET GLOBAL autocommit = 0"}, statements) {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return s, db
}

// Users of MySQL that lack the password or a right get one sentence. What a candidate claims is committed.
func TestMySQLRefuses(t *testing.T) {
	t.Parallel()
	s, db := mysqlWithApp(t, "CREATE USER stranger IDENTIFIED BY 'stranger'", "GRANT CREATE ON batuta.x TO stranger")
	dir := passwords(t, "app", "stranger", "wrong")
	url := func(user string) string { return "mysql://" + user + "@" + s.Addr + "/batuta" }
	flags := func(user, password string) []string {
		return []string{"--mysql", url(user), "--mysql-password-file", filepath.Join(dir, password)}
	}
	e := candidateOf(t, engineFlags{mysql: mysqlFlags{url: url("app"), password: filepath.Join(dir, "app")}})
	enginetest.Leads(t, batuta.Token{}, e)
	var committed int
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM batuta_elections WHERE holder = '1'").Scan(&committed); err != nil || committed != 1 {
		t.Errorf("another connection sees %d leaders, %v", committed, err)
	}

	refused(t, "no --mysql-password-file is given: MySQL refuses", all, "--mysql", url("app"))
	refused(t, "--mysql, --mysql-password-file: MySQL refuses", all, flags("app", "wrong")...)
	refused(t, "a candidate needs SELECT, INSERT and UPDATE on batuta_elections", all, flags("stranger", "stranger")...)
}

// After a switchover behind one address, candidates leave the server that has become read-only: a leader, and one that waits.
func TestMySQLSwitchover(t *testing.T) {
	t.Parallel()
	old, db := mysqlWithApp(t)
	promoted, _ := mysqlWithApp(t, "UPDATE batuta_epochs SET epoch = 100", "COMMIT")
	p := enginetest.NewProxy(t, old.Addr)
	dir := passwords(t, "app")
	open := func() engineFlags {
		return engineFlags{mysql: mysqlFlags{url: "mysql://app@" + p.Addr() + "/batuta", password: filepath.Join(dir, "app")}, lease: enginetest.Lease}
	}
	led := candidateOf(t, open())
	first := enginetest.Leads(t, batuta.Token{}, led).Leader().Token
	if _, err := db.ExecContext(t.Context(), "SET GLOBAL read_only = 1"); err != nil {
		t.Fatal(err)
	}
	waits := open()
	waits.election = "waits"
	second := candidateOf(t, waits)
	enginetest.Reports(t, second, "this server is read-only")
	p.Turn(promoted.Addr)
	enginetest.Leads(t, first, led)
	enginetest.Leads(t, batuta.Token{}, second)
}

// A bucket that is missing, and credentials that are missing or wrong, get one sentence. A file with credentials is read again
// after a refusal. With TLS the store's certificate is checked.
func TestS3Refuses(t *testing.T) {
	_, addrs := enginetest.ServeS3(t, 1)
	dir := t.TempDir()
	file, flags := filepath.Join(dir, "credentials"), func(bucket, endpoint string) []string {
		return []string{"--s3", "s3://" + bucket + "/db/", "--s3-endpoint", endpoint}
	}
	plain := flags(enginetest.Bucket, "http://"+addrs[0])
	keys := func(secret string) {
		text := "[default]\naws_access_key_id = " + enginetest.S3User + "\naws_secret_access_key = " + secret + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, "--s3 s3://missing/db/: bucket missing at http://"+addrs[0]+" does not exist: create it", all, flags("missing", "http://"+addrs[0])...)
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_CONFIG_FILE": file + "-none", "AWS_SHARED_CREDENTIALS_FILE": file} {
		t.Setenv(name, value)
	}
	refused(t, "--s3 s3://elections/db/ (AWS_ACCESS_KEY_ID is not set): the store of bucket elections at http://"+addrs[0]+" refuses access, \"AccessDenied: ", all, plain...)
	keys("wrong")
	refused(t, "refuses access, \"SignatureDoesNotMatch: ", all, plain...)
	e := candidateOf(t, engineFlags{s3: s3Flags{url: plain[1], endpoint: plain[3]}})
	enginetest.Reports(t, e, "a candidate needs s3:GetObject and s3:PutObject on db/default*")
	keys(enginetest.S3User)
	enginetest.Leads(t, batuta.Token{}, e)

	secured := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { // its Host is what the client has signed
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", addrs[0], r.In.Host
	}})
	defer secured.Close()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	over := flags(enginetest.Bucket, secured.URL)
	if code, said := ask(append([]string{"leader"}, over...)...); code != cli.Failed || !strings.Contains(said, "certificate signed by unknown authority") {
		t.Errorf("leader, without the authority, ends with %d: %s", code, said)
	}
	if code, said := ask(append([]string{"leader", "--s3-ca", ca}, over...)...); code != cli.Done || said != "1\n" {
		t.Errorf("leader ends with %d: %s", code, said)
	}
}

// consulPolicies are tokens of a server that denies what no policy allows, and the policy of each.
func consulPolicies(t *testing.T, addr string, policies map[string]string) {
	t.Helper()
	for token, rules := range policies {
		enginetest.Await(t, "Consul takes the token "+token, func(ctx context.Context) error {
			acl, options := enginetest.DialConsul(t, addr, consulToken("root")).ACL(), (&api.WriteOptions{}).WithContext(ctx)
			if _, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: token, Rules: rules}, options); err != nil && !strings.Contains(err.Error(), "already exists") {
				return err
			}
			_, _, err := acl.TokenCreate(&api.ACLToken{SecretID: consulToken(token), Policies: []*api.ACLLink{{Name: token}}}, options)
			if err != nil && strings.Contains(err.Error(), "already in use") { // an earlier try did it, and its answer was late
				return nil
			}
			return err
		})
	}
}

// consulToken is a secret of the form that Consul requires.
func consulToken(name string) string { return uuid.NewSHA1(uuid.Nil, []byte(name)).String() }

// Tokens of Consul that are missing, unknown or without the policy get one sentence. The token of the file is read again. Over
// TLS both sides show a certificate.
func TestConsulRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	s := enginetest.ServeConsul(t, 1, map[string]any{"acl": map[string]any{"enabled": true, "default_policy": "deny", "tokens": map[string]string{"initial_management": consulToken("root")}}})
	addr := s.Addrs[0]
	consulPolicies(t, addr, map[string]string{"app": `key_prefix "batuta/" { policy = "write" }`, "reader": `key_prefix "batuta/" { policy = "read" }`, "stranger": `key_prefix "x/" { policy = "write" }`})
	write := func(name string) {
		if err := os.WriteFile(in(name), []byte(consulToken(name)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"app", "reader", "stranger", "unknown"} {
		write(name)
	}
	flags := func(token string) []string { return []string{"--consul", addr, "--consul-token-file", in(token)} }
	e := candidateOf(t, engineFlags{consul: consulFlags{addr: addr, token: in("app")}})
	first := enginetest.Leads(t, batuta.Token{}, e).Leader().Token

	refused(t, `no --consul-token-file is given: Consul refuses access, "`, all, "--consul", addr)
	refused(t, `--consul-token-file: Consul refuses access, "`, all, flags("unknown")...)
	refused(t, `a candidate needs a token with the policy "write" for key batuta/default`, all, flags("stranger")...)
	refused(t, `a candidate needs a token with the policy "write" for key batuta/default`, candidacy, flags("reader")...)
	if code, said := ask(append([]string{"leader"}, flags("reader")...)...); code != cli.Done || said != "1\n" {
		t.Errorf("leader, of a token that may read, ends with %d: %s", code, said)
	}

	app, err := os.ReadFile(in("unknown"))
	if err == nil {
		err = os.WriteFile(in("app"), app, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Reports(t, e, "Consul refuses access")
	write("app")
	enginetest.Leads(t, first, e)

	secured := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: addr}) }})
	secured.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	secured.StartTLS()
	defer secured.Close()
	key, err := x509.MarshalPKCS8PrivateKey(secured.TLS.Certificates[0].PrivateKey)
	for name, block := range map[string]*pem.Block{"ca.pem": {Type: "CERTIFICATE", Bytes: secured.Certificate().Raw}, "key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		if err == nil {
			err = os.WriteFile(in(name), pem.EncodeToMemory(block), 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	over := []string{"leader", "--consul", secured.URL, "--consul-token-file", in("app"), "--consul-cert", in("ca.pem"), "--consul-key", in("key.pem")}
	if code, said := ask(over...); code != cli.Failed || !strings.Contains(said, "certificate signed by unknown authority") {
		t.Errorf("leader, without the authority, ends with %d: %s", code, said)
	}
	if code, said := ask(append(over, "--consul-ca", in("ca.pem"))...); code != cli.Done || said != "1\n" {
		t.Errorf("leader ends with %d: %s", code, said)
	}
}

// Each name of an election has a key of its own, of bytes that each Consul takes. A token is sent to no server that an answer
// names, and the variable with its file counts. Of an answer without end 1 MB is read.
func TestConsulAddressesAndKeys(t *testing.T) {
	addr, file := enginetest.ServeConsul(t, 1, nil).Addrs[0], filepath.Join(passwords(t, "token"), "token")
	flags := engineFlags{consul: consulFlags{addr: "http://" + addr + "/"}}
	for _, flags.election = range []string{"reports.v1 año", "reports,v1 año", "a b", "a+b", "a,20b", "a%20b", "a~b", "a/b"} {
		e, err := flags.open()
		if err != nil {
			t.Fatal(err)
		}
		seen, err := e.Look(t.Context())
		if err == nil {
			_, err = e.Claim(t.Context(), seen, engines.Record{ID: "1", Process: "p", Lasts: enginetest.Lease})
		}
		if err != nil || seen.ID != "" || e.Close() != nil {
			t.Errorf("election %q: %+v, %v", flags.election, seen, err)
		}
	}

	t.Setenv(api.HTTPTokenFileEnvName, file)
	var first, second atomic.Value
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { second.Store(r.Header.Clone()) }))
	defer target.Close()
	turned := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first.Store(r.Header.Get("X-Consul-Token"))
		http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
	}))
	defer turned.Close()
	if code, said := ask("status", "--consul", turned.URL); code != cli.Failed || first.Load() != "token" || second.Load() != nil {
		t.Errorf("status ends with %d: %s; the token %v is sent, and then %v", code, said, first.Load(), second.Load())
	}

	const most = 64
	parts := 0
	huge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		for _, err := w.Write(make([]byte, 1<<20)); err == nil && parts < most; _, err = w.Write(make([]byte, 1<<20)) {
			parts++
		}
	}))
	code, said := ask("status", "--consul", huge.URL)
	huge.Close() // it waits for the handler
	if code != cli.Failed || strings.Count(said, "\n") != 1 || parts == most {
		t.Errorf("status reads %d MB or more, and ends with %d: %q", parts, code, said)
	}
}

// What is wrong with the flags of an engine is reported in a line with exit code 2, without the password.
func TestEngineFlagsAreWrong(t *testing.T) {
	dir := passwords(t, "p")
	file := filepath.Join(dir, "p")
	for _, args := range [][]string{
		{"--nats", "nats://user:hidden@127.0.0.1:1"},
		{"--nats", "127.0.0.1:1", "--nats-user", "u"},
		{"--nats", "127.0.0.1:1", "--nats-password-file", file + "-missing"},
		{"--nats", "127.0.0.1:1", "--nats-creds", file, "--nats-user", "u", "--nats-password-file", file},
		{"--nats", "127.0.0.1:1", "--nats-ca", file},
		{"--nats", "127.0.0.1:1", "--nats-bucket", "a.b"},
		{"--nats", "127.0.0.1:1", "--etcd", "127.0.0.1:1"},
		{"--etcd", "127.0.0.1:1", "--nats-user", "u"},
		{"--redis", "redis://user:hidden@127.0.0.1:1"},
		{"--redis", "127.0.0.1"},
		{"--redis", "127.0.0.1:1", "--redis-user", "u"},
		{"--redis", "127.0.0.1:1", "--redis-password-file", file + "-missing"},
		{"--redis", "rediss://127.0.0.1:1", "--redis-ca", file},
		{"--redis", "127.0.0.1:1", "--redis-ca", file},
		{"--nats", "127.0.0.1:1", "--redis-password-file", file},
		{"--nats", "127.0.0.1:1", "--mysql-password-file", file},
		{"--mysql", "mysql://user:hidden@127.0.0.1/d"},
		{"--mysql", "127.0.0.1:1"},
		{"--mysql", "mysql://user@127.0.0.1/"},
		{"--mysql", "mysql://user@127.0.0.1/d", "--mysql-ca", file},
		{"--mysql", "mysql://user@127.0.0.1/d?tls=true", "--mysql-ca", file},
		{"--mysql", "mysql://user@127.0.0.1/d?tls=1"},
		{"--mysql", "mysql://user@127.0.0.1/d?ssl-mode=REQUIRED"},
		{"--mysql", "mysql://user@127.0.0.1/d?tls=true&x=y"},
		{"--s3", "bucket"},
		{"--s3", "https://bucket/prefix"},
		{"--s3", "s3://"},
		{"--s3", "s3://Not_A_Bucket"},
		{"--s3", "s3://user:hidden@bucket"},
		{"--s3", "s3://bucket?x=hidden"},
		{"--s3", "s3://bucket", "--s3-endpoint", "127.0.0.1:1"},
		{"--s3", "s3://bucket", "--s3-endpoint", "ftp://127.0.0.1"},
		{"--s3", "s3://bucket", "--s3-endpoint", "http://user:hidden@127.0.0.1"},
		{"--s3", "s3://bucket", "--s3-endpoint", "http://127.0.0.1/path"},
		{"--s3", "s3://bucket", "--s3-endpoint", "http://127.0.0.1:1", "--s3-ca", file},
		{"--s3", "s3://bucket", "--s3-endpoint", "https://127.0.0.1:1", "--s3-ca", file},
		{"--nats", "127.0.0.1:1", "--s3-region", "x"},
		{"--consul", "http://user:hidden@127.0.0.1:1"},
		{"--consul", "127.0.0.1"},
		{"--consul", "127.0.0.1:x"},
		{"--consul", "http://127.0.0.1:1/path"},
		{"--consul", "127.0.0.1:1", "--consul-ca", file},
		{"--consul", "https://127.0.0.1:1", "--consul-ca", file},
		{"--consul", "https://127.0.0.1:1", "--consul-cert", file},
		{"--consul", "https://127.0.0.1:1", "--consul-cert", file, "--consul-key", file},
		{"--consul", "127.0.0.1:1", "--consul-token-file", file + "-missing"},
		{"--nats", "127.0.0.1:1", "--consul-token-file", file},
	} {
		for _, command := range []string{"run", "agent", "status", "leader", "watch"} {
			full := append([]string{command}, args...)
			if command == "run" {
				full = append(full, "--", "true")
			}
			code, said := ask(full...)
			if code != cli.Usage || strings.Count(said, "\n") != 1 || strings.Contains(said, "hidden") || !strings.Contains(said, "--nats") && !strings.Contains(said, "--redis") && !strings.Contains(said, "--mysql") && !strings.Contains(said, "--s3") && !strings.Contains(said, "--consul") {
				t.Errorf("%q ends with %d: %s", full, code, said)
			}
		}
	}
}

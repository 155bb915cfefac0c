package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/etcd"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

func (f *engineFlags) openEtcd() (engines.Engine, error) {
	for _, endpoint := range f.etcd {
		if strings.Contains(endpoint, "@") && !strings.HasPrefix(endpoint, "unix") { // it is not printed: it may hold the password
			return nil, cli.Usagef("--etcd: an address holds no user and no password; give --etcd-user NAME and --etcd-password-file FILE")
		}
	}
	secured := strings.HasPrefix(f.etcd[0], "https://")
	config := clientv3.Config{Endpoints: f.etcd, Logger: zap.NewNop(), DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second}
	login, err := f.etcdLogin()
	if err != nil {
		return nil, err
	}
	if login != nil {
		config.DialOptions = []grpc.DialOption{grpc.WithPerRPCCredentials(login), grpc.WithChainUnaryInterceptor(login.intercept)}
	}
	if f.etcdCA+f.etcdCert+f.etcdKey != "" && !secured {
		return nil, cli.Usagef("--etcd %s: certificates are given; write https://%s", f.etcd[0], strings.TrimPrefix(f.etcd[0], "http://"))
	}
	if secured {
		if config.TLS, err = clientTLS("etcd", f.etcdCA, f.etcdCert, f.etcdKey); err != nil {
			return nil, err
		}
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, cli.Usagef("--etcd: %w", err)
	}
	flags := "no --etcd-user and --etcd-password-file are given"
	if f.etcdUser != "" {
		flags = "--etcd-user " + f.etcdUser + ", --etcd-password-file"
	}
	return held{etcd.New(client, etcd.Prefix+f.election+"/"), client.Close, flags, nil}, nil
}

// etcdLogin is what the flags give to log in with; nil: nothing.
func (f *engineFlags) etcdLogin() (*etcdLogin, error) {
	if f.etcdUser == "" && f.etcdPassword == "" {
		return nil, nil
	}
	if f.etcdUser == "" || f.etcdPassword == "" {
		return nil, cli.Usagef("--etcd-user and --etcd-password-file go together: give both")
	}
	login := &etcdLogin{user: f.etcdUser, file: f.etcdPassword}
	if _, err := readPassword(login.file); err != nil {
		return nil, cli.Usagef("--etcd-password-file: %w", err)
	}
	return login, nil
}

// etcdLogin gives each call of etcd the token of a user. It logs in when etcd refuses a call because it has no valid
// token. The client's own login waits for etcd when it is made, and logs in again for each watch: that costs etcd a bcrypt hash.
type etcdLogin struct {
	user, file string

	logging sync.Mutex // held during a login
	mu      sync.Mutex
	token   string
}

// GetRequestMetadata implements credentials.PerRPCCredentials. A login is sent without a token: etcd
// refuses a login with a token that has become invalid.
func (l *etcdLogin) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token := l.current()
	if call, _ := credentials.RequestInfoFromContext(ctx); token == "" || call.Method == etcdserverpb.Auth_Authenticate_FullMethodName {
		return nil, nil
	}
	return map[string]string{rpctypes.TokenFieldNameGRPC: token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (l *etcdLogin) RequireTransportSecurity() bool { return false }

func (l *etcdLogin) current() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

// intercept sends a call again after a login, if etcd has refused it for its token. A refused call has changed nothing.
func (l *etcdLogin) intercept(ctx context.Context, method string, request, reply any, to *grpc.ClientConn, send grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	used := l.current()
	err := send(ctx, method, request, reply, to, opts...)
	if method == etcdserverpb.Auth_Authenticate_FullMethodName || !wantsLogin(err) {
		return err
	}
	if err := l.login(ctx, to, used); err != nil {
		return err
	}
	return send(ctx, method, request, reply, to, opts...)
}

func wantsLogin(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrInvalidAuthToken) || errors.Is(err, rpctypes.ErrAuthOldRevision)
}

// login replaces the token that was refused, unless a concurrent call has replaced it.
func (l *etcdLogin) login(ctx context.Context, to *grpc.ClientConn, refused string) error {
	l.logging.Lock()
	defer l.logging.Unlock()
	if l.current() != refused {
		return nil
	}
	password, err := readPassword(l.file)
	if err != nil {
		return err
	}
	resp, err := etcdserverpb.NewAuthClient(to).Authenticate(ctx, &etcdserverpb.AuthenticateRequest{Name: l.user, Password: password})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token = resp.Token
	return nil
}

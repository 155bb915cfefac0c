package ask

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/net/security"
)

// accessFlags are what a command needs to be let in by an agent.
type accessFlags struct{ cluster, secretFile, tlsCA, tokenFile string }

func (f *accessFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.tokenFile, "http-token-file", "", "`FILE` with a token of the agent: the first with role operate, else the first")
	fs.StringVar(&f.tlsCA, "tls-ca", "", "`FILE` with the authorities to accept of an agent on another machine")
	fs.StringVar(&f.secretFile, "secret-file", "", "`FILE` with the cluster's secret, to accept an agent that has it")
	fs.StringVar(&f.cluster, "cluster", "default", "`NAME` of the cluster that the secret is of")
}

func (f *accessFlags) access() (api.Access, error) {
	config, err := security.ClientConfig(f.cluster, f.secretFile, f.tlsCA)
	if err != nil {
		return api.Access{}, cli.Usagef("%w", err)
	}
	a := api.Access{TLS: config}
	if f.tokenFile != "" {
		tokens, err := access.ReadFile(f.tokenFile)
		if len(tokens) == 0 {
			return api.Access{}, cli.Usagef("--http-token-file: %w", err)
		}
		tokens = slices.DeleteFunc(tokens, func(g access.Grant) bool { return g.Token == "" })
		if len(tokens) == 0 {
			return api.Access{}, cli.Usagef("--http-token-file %s has only lines of users: add one with a token, or leave the flag out at a Unix socket", f.tokenFile)
		}
		best := slices.IndexFunc(tokens, func(g access.Grant) bool { return g.Role == access.Operate })
		a.Token = tokens[max(best, 0)].Token
	}
	return a, nil
}

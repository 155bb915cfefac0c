package main

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/vip"
)

// lastTime is what the holder of an address has to give it back when its lease has
// ended, or the agent was killed. It needs a few milliseconds.
const lastTime = 500 * time.Millisecond

func newVIPCommand(e cli.Env) *cobra.Command {
	var f agentFlags
	var dev string
	cmd := &cobra.Command{
		Use:   "vip ADDRESS/BITS… --dev DEV [agent flags]",
		Short: "Hold a floating IP address on the leader",
		Long: `vip joins a cluster as "batuta agent" does. While this member leads, the network
device has the addresses, IPv4 or IPv6, and announces them again and again by gratuitous ARP
or unsolicited neighbor advertisement. Clients need one address, and
reach whichever machine leads.

The addresses are given back before another member leads: on SIGTERM, when leadership ends,
and when the device has no carrier. If batuta is killed or stuck, another process of it
gives them back; with --algorithm quorum before the lease ends.
If all its processes are killed at once, the kernel takes them away within 5 s.
What an earlier run has left is taken away at the start.

It needs CAP_NET_ADMIN and CAP_NET_RAW, and Linux.`,
		Example: `  # on each of two machines or more, their own addresses being 10.0.0.1, 10.0.0.2, …
  batuta vip 10.0.0.100/24 --dev eth0 --id 1 --listen 10.0.0.1:7400 --secret-file cluster.key \
    --member 2=10.0.0.2:7400
  batuta vip 10.0.0.100/24 2001:db8::100/64 --dev eth0 --config /etc/batuta.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("which address? write it first, as in: batuta vip 10.0.0.100/24 --dev eth0")
			}
			return nil
		},
	}
	f.register(cmd.Flags())
	registerDev(cmd, &dev)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := vipConfig(dev, args)
		if err != nil {
			return err
		}
		if err := vip.Check(c); err != nil {
			return cli.Exit(cli.Usage, err)
		}
		c.Log = slog.New(slog.NewTextHandler(e.Stderr, nil))
		self, err := os.Executable()
		if err != nil {
			return err
		}
		j := &job{argv: append([]string{self, "hold-address", "--dev", dev}, args...), grace: lastTime, last: lastTime,
			clear: func() error { return vip.Clear(c) }}
		a := &agentRun{Env: e, flags: &f, cmd: cmd, job: j}
		return a.run(cmd.Context())
	}
	return cmd
}

func registerDev(cmd *cobra.Command, dev *string) {
	cmd.Flags().StringVar(dev, "dev", "", "`NAME` of the network device, such as eth0")
}

func vipConfig(dev string, args []string) (c vip.Config, err error) {
	if dev == "" {
		return c, cli.Usagef("on which network device? add --dev, as in: batuta vip %s --dev eth0", strings.Join(args, " "))
	}
	var addresses []netip.Prefix
	if addresses, err = vip.Parse(args); err != nil {
		return c, cli.Exit(cli.Usage, err)
	}
	return vip.Config{Addresses: addresses, Dev: dev}, nil
}

// newHoldAddressCommand is what "batuta vip" runs while it leads.
func newHoldAddressCommand(e cli.Env) *cobra.Command {
	var dev string
	cmd := &cobra.Command{
		Use:     "hold-address",
		Short:   "Hold an address for the \"batuta vip\" that started it",
		Example: "  (started by batuta vip)",
		Hidden:  true,
		// Its settings are its starter's: neither file nor environment is read.
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
	}
	registerDev(cmd, &dev)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2) // not for it
		return holdAddress(ctx, e, dev, args)
	}
	return cmd
}

func holdAddress(ctx context.Context, e cli.Env, dev string, args []string) error {
	c, err := vipConfig(dev, args)
	if err != nil {
		return err
	}
	c.Log = slog.New(slog.NewTextHandler(e.Stderr, nil)).With("token", os.Getenv("BATUTA_TOKEN"))
	return vip.Hold(ctx, c)
}

// The program hold runs a command while it holds the election payroll, for a test: hold AGENT COMMAND ARG...
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	batutaclient "github.com/batuta-dev/batuta/clients/go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := batutaclient.New(os.Args[1]).Lead(ctx, "payroll", func(ctx context.Context, l *batutaclient.Leadership) error {
		cmd := exec.CommandContext(ctx, os.Args[2], os.Args[3:]...) // kills it when ctx ends
		cmd.Env = append(os.Environ(), "BATUTA_TOKEN="+l.Token)
		err := cmd.Run()
		if ctx.Err() != nil {
			return nil
		}
		return err
	}, batutaclient.Options{})
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

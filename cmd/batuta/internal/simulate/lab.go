package simulate

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/lab"
)

type labCommand struct {
	cli.Env
	http, static string
	open         bool
	incident     []byte // to open; nil: none
}

func (c *labCommand) readIncident(file string) (err error) {
	if c.incident, err = os.ReadFile(file); err != nil {
		return cli.Usagef("%w", cli.Unread(err))
	}
	var kind struct{ Batuta string }
	if err := json.Unmarshal(c.incident, &kind); err != nil || kind.Batuta != "incident" {
		return cli.Usagef("%s is no incident: write one with batuta explain --lab FILE", file)
	}
	return nil
}

// NewLabCommand makes "batuta lab".
func NewLabCommand(e cli.Env) *cobra.Command {
	c := &labCommand{Env: e}
	cmd := &cobra.Command{
		Use:   "lab [FILE]",
		Short: "Watch and break elections in the browser",
		Long: `lab serves the lab's page until it is interrupted: the simulator of "batuta sim",
compiled to WebAssembly, which runs in the browser, without a connection. Choose an
algorithm, play, pause and scrub, click members and links to crash, freeze or cut
them; the acts are a scenario that "batuta sim run" plays to the same trace.

From a checkout, or after go install, the simulator is built by the go command first.
--static writes the same page into a directory, for any web server. FILE is an incident
of a real cluster, which batuta explain --lab has written: the page opens it.`,
		Example: `  batuta lab
  batuta lab --http 127.0.0.1:8080 --open=false
  batuta lab --static public/lab
  batuta lab incident.json`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&c.http, "http", "127.0.0.1:0", "`HOST:PORT` to serve it on; port 0 picks a free one")
	f.BoolVar(&c.open, "open", true, "open it in the browser")
	f.StringVar(&c.static, "static", "", "write it into `DIR` and end")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			if err := c.readIncident(args[0]); err != nil {
				return err
			}
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return c.run(ctx)
	}
	return cmd
}

func (c *labCommand) run(ctx context.Context) error {
	var l net.Listener
	level := gzip.BestCompression
	if c.static == "" { // a busy port is reported before anything is built
		var err error
		if l, err = net.Listen("tcp", c.http); err != nil {
			return cli.Usagef("--http: %w; choose a free port, or 0 for any", err)
		}
		defer l.Close()
		level = gzip.BestSpeed // for a browser of this machine
	}
	site, err := lab.Site(ctx, level)
	switch {
	case ctx.Err() == nil:
	case c.static != "":
		return errors.New("interrupted: nothing was written")
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if c.incident != nil {
		site["incident.json"] = c.incident
	}
	if c.static != "" {
		if err := lab.Write(c.static, site); err != nil {
			return err
		}
		fmt.Fprintf(c.Stdout, "the lab is in %s: serve it by any web server\n", c.static)
		return nil
	}
	return c.serve(ctx, l, site.Handler())
}

func (c *labCommand) serve(ctx context.Context, l net.Listener, page http.Handler) error {
	url := "http://" + l.Addr().String() + "/"
	if c.incident != nil {
		url += "#incident=incident.json"
	}
	server := &http.Server{Handler: page, ReadTimeout: 10 * time.Second} // no bound on answers: a classroom takes minutes to load the simulator
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	fmt.Fprintf(c.Stdout, "lab: %s\n", url)
	if c.open {
		if err := openBrowser(url); err != nil {
			fmt.Fprintf(c.Stderr, "no browser could be opened (%v): open the address above\n", err)
		}
	}
	select {
	case err := <-ended:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	case <-ctx.Done():
		return server.Close()
	}
}

// openBrowser asks the system to show url.
func openBrowser(url string) error {
	name, args := "xdg-open", []string{url}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	}
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // how it ends is its own matter
	return nil
}

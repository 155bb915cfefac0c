// Package recovery recovers a cluster that has lost its majority permanently: it makes a
// remaining member the only voter.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
	"github.com/batuta-dev/batuta/internal/disk/logfile"
	"github.com/batuta-dev/batuta/quorum"
)

// answerWithin is how long a voter may take to accept a connection.
const answerWithin = 2 * time.Second

// command is what the flags of "batuta recover" ask for.
type command struct {
	id      string
	dir     string
	members []string
	above   uint64
	yes     bool
	list    []election.Member
}

// NewCommand is "batuta recover", which prints to out. confirm asks the user; nil: there is
// no terminal.
func NewCommand(out io.Writer, confirm func(question string) bool) *cobra.Command {
	var c command
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Restart a quorum from one member",
		Long: `recover is for a quorum of which too few data directories are left to elect a leader. On a
stopped member it makes that member the only voter. Started again, the member leads. Each
other member then starts with an empty data directory and --join, and votes once it has the log.

What the lost majority decided without this member is lost: members added or removed, and
epochs that are only on the lost disks. Where a database compares epochs, give the highest
that it has seen as --epoch-above. Two clusters lead if the lost members run again with
their data directories: recover is refused while a majority of the voters answers.

Bully and the rings need no recovery: start what is left of the members. Before it changes
the log, recover keeps a copy of it in the data directory.`,
		Example: `  batuta recover --id 1 --data-dir /var/lib/batuta --members 1=10.0.0.1:7400
  batuta recover --id 1 --data-dir /var/lib/batuta --epoch-above 120 --yes \
    --members 1=10.0.0.1:7400,2=10.0.0.2:7400`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return c.run(cmd.Context(), out, cmd.ErrOrStderr(), confirm)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&c.id, "id", "", "`ID` of this member")
	fs.StringVar(&c.dir, "data-dir", "", "`DIR` with the log of this member, which is stopped")
	cli.ListVar(fs, &c.members, "members", "`LIST` of the members from now on, as ID=HOST:PORT with commas between, this one included")
	fs.Uint64Var(&c.above, "epoch-above", 0, "the next epochs are above `N`, and above the highest on this disk")
	fs.BoolVar(&c.yes, "yes", false, "do not ask")
	return cmd
}

// check finds what is wrong with the flags.
func (c *command) check() error {
	switch {
	case c.id == "":
		return cli.Usagef("--id is missing: give this member's id, such as --id 1")
	case c.dir == "":
		return cli.Usagef("--data-dir is missing: give the data directory of this member")
	case len(c.members) == 0:
		return cli.Usagef("--members is missing: list the members from now on, such as --members %s=10.0.0.1:7400", election.Shown(c.id))
	}
	self, err := election.ParseID(c.id)
	if err != nil {
		return cli.Usagef("--id %q: %w", c.id, err)
	}
	c.id = string(self)
	listed := false
	for _, item := range c.members {
		id, addr, err := cli.Member("--members", item)
		if err != nil {
			return err
		}
		listed = listed || id == self
		c.list = append(c.list, election.Member{Rank: election.Rank{ID: id}, Address: addr})
	}
	if !listed {
		return cli.Usagef("--members does not list %s, the member to recover: add %s=HOST:PORT", self, self)
	}
	return nil
}

func (c *command) run(ctx context.Context, out, logs io.Writer, confirm func(string) bool) error {
	if _, err := os.Stat(filepath.Join(c.dir, logfile.File)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no log of a quorum: give the data directory of a member that ran with --algorithm quorum; bully and the rings need no recovery", c.dir)
	}
	log, err := logfile.Open(c.dir, slog.New(slog.NewTextHandler(logs, nil)))
	if err != nil {
		return fmt.Errorf("%w; recover works on a stopped member", err)
	}
	defer log.Close()
	records, err := log.Load()
	if err != nil {
		return err
	}
	r, err := quorum.Recover(records, election.ID(c.id), c.list, c.above)
	if err != nil {
		return fmt.Errorf("%s: %w", c.dir, err)
	}
	if err := c.refuse(ctx, r.Voters); err != nil {
		return err
	}
	fmt.Fprint(out, c.plan(r))
	if !c.yes && (confirm == nil || !confirm("Recover member "+c.id+"?")) {
		return cli.Usagef("nothing was changed; to recover member %s, give --yes", c.id)
	}
	kept, err := keep(filepath.Join(c.dir, logfile.File))
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if err := log.Replace(r.Records...); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "recovered: start member %s now; the log of before is %s\n", c.id, kept)
	return err
}

// refuse refuses while more than half of the voters are there.
func (c *command) refuse(ctx context.Context, voters []election.Member) error {
	reached := make([]bool, len(voters))
	var tries sync.WaitGroup
	for i, v := range voters {
		if string(v.ID) == c.id {
			continue
		}
		tries.Go(func() {
			conn, err := (&net.Dialer{Timeout: answerWithin}).DialContext(ctx, "tcp", v.Address)
			if reached[i] = err == nil; reached[i] {
				conn.Close()
			}
		})
	}
	tries.Wait()
	var answer []string
	left := 0
	for i, v := range voters {
		switch {
		case string(v.ID) == c.id: // it may have no vote, and is not on the list then
			left++
		case reached[i]:
			left++
			answer = append(answer, fmt.Sprintf("%s at %s", v.ID, v.Address))
		}
	}
	switch {
	case len(voters) == 1 && string(voters[0].ID) == c.id:
		return fmt.Errorf("member %s is the only voter already: start it, and it leads", c.id)
	case 2*left > len(voters):
		return fmt.Errorf("nothing was changed: of %d voters %s answers, so a majority is left: start this member instead", len(voters), strings.Join(answer, ", "))
	}
	return nil
}

// plan describes what is found, what will change and what is lost.
func (c *command) plan(r quorum.Recovered) string {
	var b strings.Builder
	var voters, newcomers []string
	for _, v := range r.Voters {
		voters = append(voters, string(v.ID))
	}
	var addr string
	for _, m := range c.list {
		if string(m.ID) == c.id {
			addr = m.Address
		} else {
			newcomers = append(newcomers, string(m.ID))
		}
	}
	fmt.Fprintf(&b, "found: the log of member %s, epoch %d, with the voters %s\n", c.id, r.Epoch, strings.Join(voters, ", "))
	fmt.Fprintf(&b, "then: member %s is the only voter, and the next epoch is above %d\n", c.id, max(r.Epoch, c.above))
	fmt.Fprintln(&b, "lost: what a majority decided without this member, and epochs that are on no disk here")
	if len(newcomers) > 0 {
		fmt.Fprintf(&b, "next: start %s with an empty data directory and --join %s\n", strings.Join(newcomers, ", "), addr)
	}
	fmt.Fprintln(&b, "never: start a lost member with the data directory of before")
	return b.String()
}

// keep copies a file within its directory, under a name that no file has.
func keep(name string) (string, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	kept := name + ".before-recovery-" + time.Now().UTC().Format("20060102T150405.000000000")
	_, err = datadir.Replace(kept, data)
	return kept, err
}

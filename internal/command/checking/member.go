package checking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/net/transport"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// asked is a member that is asked.
type asked struct {
	Target
	plan     *Plan
	by       *security.Security // nil: plain
	dialOnly bool               // no question: nothing proves this machine, or it is a different wire
	found    []Finding
}

// questions is how often each is asked: the shortest round trip of them is the network's.
const questions = 3

// unknown is what a machine calls itself that has no id yet. It asks under it, and joins nothing.
const unknown election.ID = "batuta-check"

func (a *asked) fault(kind, what, do string) {
	a.found = append(a.found, Finding{Kind: kind, Member: string(a.ID), Where: a.Addr, What: what, Do: do})
}

func (a *asked) well(kind, what string) {
	a.found = append(a.found, Finding{OK: true, Kind: kind, Member: string(a.ID), Where: a.Addr, What: what})
}

// check asks the member, and gives what it has found.
func (a *asked) check(ctx context.Context) []Finding {
	if err := a.resolve(ctx); err != nil {
		a.fault("name", fmt.Sprintf("the name does not resolve (%v)", err), "correct it, or the name server's records or /etc/hosts")
		return a.found
	}
	if a.dialOnly {
		a.dial(ctx)
		return a.found
	}
	var best transport.Probed
	for range questions {
		answer, err := a.ask(ctx)
		if err != nil {
			a.unanswered(err)
			return a.found
		}
		if best.Handshake == nil || answer.RoundTrip < best.RoundTrip {
			best = answer
		}
	}
	a.judge(best)
	return a.found
}

// resolve looks up the name in the member's address.
func (a *asked) resolve(ctx context.Context) error {
	host, _, err := net.SplitHostPort(a.Addr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.plan.Limit)
	defer cancel()
	_, err = net.DefaultResolver.LookupHost(ctx, host)
	return err
}

// dial finds only whether a process listens.
func (a *asked) dial(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.plan.Limit)
	defer cancel()
	c, err := transport.Dial(ctx, a.Addr)
	if err != nil {
		a.unanswered(err)
		return
	}
	c.Close()
	a.well("port", "a process listens there; more is not known")
}

func (a *asked) ask(ctx context.Context) (transport.Probed, error) {
	var by transport.Security
	if a.by != nil {
		by = a.by
	}
	self := wire.Handshake{Cluster: a.plan.Cluster, From: election.Rank{ID: cmp.Or(a.plan.ID, unknown)}}
	return transport.Probe(ctx, a.Addr, by, self, a.plan.Limit)
}

// unanswered is for a member that gives no answer.
func (a *asked) unanswered(err error) {
	var dialed *net.OpError
	var timeout net.Error
	start := "start its agent, or correct its address"
	if a.mine() {
		start = "start the agent"
	}
	switch bad := (*wire.BadFrame)(nil); {
	case errors.Is(err, transport.ErrRefused):
		a.fault("port", "nothing listens there", start)
	case transport.IsInsecure(err):
		what, do := err.Error(), "give both the same secret, or certificates of one authority"
		if before, after, said := strings.Cut(what, ": set up both alike"); said {
			what, do = before, "set up both alike"+after
		}
		a.fault("security", what, do)
	case errors.As(err, &bad):
		a.fault("port", "the process that listens there is no member", "correct the address")
	case errors.As(err, &dialed) && dialed.Op == "dial" && !dialed.Timeout():
		a.fault("port", err.Error(), "correct the address or the route to it")
	case errors.As(err, &timeout) && timeout.Timeout() && dialed != nil && dialed.Op != "dial":
		a.fault("port", fmt.Sprintf("a process accepts connections there, and does not answer within %v", a.plan.Limit),
			"it is no member, or hangs: look at that machine, or correct the address")
	case errors.As(err, &timeout) && timeout.Timeout():
		a.fault("port", fmt.Sprintf("no answer within %v", a.plan.Limit), "a firewall drops the connection, the machine is off, or the address is wrong")
	default:
		a.fault("port", fmt.Sprintf("the process there ends the connection without an answer (%v)", err), "it is no member, or is about to end")
	}
}

// mine reports whether this machine's own member is asked.
func (a *asked) mine() bool { return a.ID != election.None && a.ID == a.plan.ID }

// judge compares an answer with the configuration.
func (a *asked) judge(answer transport.Probed) {
	if a.ID == election.None {
		a.ID = answer.From.ID // of --join, where any member may be
	}
	before := len(a.found)
	switch answer.Reason {
	case wire.ReasonCheck:
		a.settings(answer)
		a.list(answer)
		a.proof(answer)
		a.clock(answer)
		a.roundTrip(answer)
	case wire.ReasonVersion:
		a.fault("version", answer.Detail, "install the same release on all machines")
	case wire.ReasonCluster:
		a.fault("cluster", fmt.Sprintf("the member there, %s, is of another cluster than %q", answer.From.ID, a.plan.Cluster), "give all the same --cluster, or correct the address")
	case wire.ReasonReceiver:
		a.fault("version", "its release does not know this check", "install the same release on all machines")
	default:
		a.fault("refused", fmt.Sprintf("it refuses this machine (%s): %s", answer.Reason.Known(), answer.Detail), "see docs/troubleshooting.md")
	}
	if len(a.found) == before {
		a.well("member", a.summary(answer))
	}
}

func (a *asked) summary(answer transport.Probed) string {
	who := "answers"
	if a.mine() {
		who = "this member answers"
	}
	text := fmt.Sprintf("%s in %v, set up alike", who, answer.RoundTrip.Round(10*time.Microsecond))
	if answer.Clock != 0 && !a.mine() {
		text += fmt.Sprintf("; its clock is within %v of this one", (answer.Ahead.Abs() + answer.RoundTrip/2).Round(100*time.Microsecond))
	}
	return text
}

// settings finds what all members must have alike, and is not.
func (a *asked) settings(answer transport.Probed) {
	if answer.From.ID != a.ID {
		a.fault("id", fmt.Sprintf("member %s is there, not %s", answer.From.ID, a.ID), "correct the member list, or that member's --id")
	}
	if answer.Algorithm != a.plan.Algorithm {
		a.fault("algorithm", fmt.Sprintf("it has --algorithm %s, and this configuration %s", answer.Algorithm, a.plan.Algorithm), "give all members the same")
	}
	if answer.Election != a.plan.Election {
		a.fault("election", fmt.Sprintf("it has the election %q, and this configuration %q", answer.Election, a.plan.Election), "give all members the same")
	}
	if answer.TMax != a.plan.Timing.TMax || answer.TProcess != a.plan.Timing.TProcess {
		a.fault("times", fmt.Sprintf("it has --t-max %v and --t-process %v, and this configuration %v and %v",
			answer.TMax, answer.TProcess, a.plan.Timing.TMax, a.plan.Timing.TProcess), "give all members the same")
	}
}

// list finds what the member has about this machine's.
func (a *asked) list(answer transport.Probed) {
	own := a.plan.own()
	if a.mine() || a.plan.ID == election.None || own == "" {
		return
	}
	where := fmt.Sprintf("%s=%s", a.plan.ID, own)
	if len(answer.List) != 1 {
		if len(a.plan.Join) == 0 {
			a.fault("list", fmt.Sprintf("its list does not have this member, %s", a.plan.ID), "add --member "+where+" there, or: batuta members add "+where)
		}
		return
	}
	switch e := answer.List[0]; {
	case e.Departure == election.Removed:
		a.fault("list", fmt.Sprintf("this member, %s, was removed", a.plan.ID), "to let it in again: batuta members add "+where)
	case e.Departure != 0: // it has left, and returns when it starts
	case !sameAddress(e.Address, own):
		a.fault("list", fmt.Sprintf("it has this member, %s, at %s, and this configuration has %s", a.plan.ID, e.Address, own), "correct the list there, or --advertise here")
	}
}

// proof finds the certificate of a different member, and a certificate that ends soon.
func (a *asked) proof(answer transport.Probed) {
	if a.by == nil || answer.Proof == nil {
		return
	}
	if err := a.by.Proves(*answer.Proof, string(answer.From.ID)); err != nil {
		a.fault("security", err.Error(), "give that member the certificate of its id")
	}
	if a.by.Life() == (security.Life{}) || a.mine() {
		return // a secret's certificates are of a day, and renewed
	}
	leaf := answer.Proof.PeerCertificates[0]
	if life := (security.Span{From: leaf.NotBefore, To: leaf.NotAfter}); ending(life) {
		a.found = append(a.found, a.plan.endingSoon(string(answer.From.ID), a.Addr, life))
	}
}

// maxAhead is how far two wall clocks may differ before it is a fault: a second changes the
// order of what two logs have, and a schedule runs twice or late.
const maxAhead = time.Second

// clock compares the wall clocks. The member reads its own between question and answer.
func (a *asked) clock(answer transport.Probed) {
	if answer.Clock == 0 || answer.Ahead.Abs() <= maxAhead+answer.RoundTrip/2 {
		return
	}
	side := "ahead of"
	if answer.Ahead < 0 {
		side = "behind"
	}
	a.fault("clock", fmt.Sprintf("its clock is %v %s this one", answer.Ahead.Abs().Round(time.Millisecond), side), "set both by NTP")
}

// room is how many times what was measured should fit, as for "batuta tune".
const room = 4

// roundTrip compares the network with t_max.
func (a *asked) roundTrip(answer transport.Probed) {
	if way := answer.RoundTrip / 2; room*way > a.plan.Timing.TMax {
		a.fault("times", fmt.Sprintf("question and answer take %v: --t-max %v is less than %d times one way", answer.RoundTrip.Round(10*time.Microsecond), a.plan.Timing.TMax, room),
			fmt.Sprintf("give all members --t-max %v or more, or a longer --profile; batuta tune measures for longer", upTo(room*way)))
	}
}

// upTo is d rounded up to what a person writes.
func upTo(d time.Duration) time.Duration {
	return (d + 10*time.Millisecond - 1).Truncate(10 * time.Millisecond)
}

func sameAddress(a, b string) bool {
	if a == b {
		return true
	}
	first, err := netip.ParseAddrPort(a)
	second, other := netip.ParseAddrPort(b)
	if err != nil || other != nil {
		return err != nil || other != nil // the name may resolve to the same address
	}
	return first == second
}

// endsSoon is when an alert about a certificate begins, too: docs/monitoring.md.
const endsSoon = 14 * 24 * time.Hour

// ending reports whether a certificate ends soon, in proportion to its life.
func ending(life security.Span) bool {
	left := time.Until(life.To)
	return !life.To.IsZero() && left < endsSoon && left < life.To.Sub(life.From)/5
}

func (p *Plan) endingSoon(id, where string, life security.Span) Finding {
	return Finding{Kind: "certificate", Member: id, Where: where, What: fmt.Sprintf("its certificate ends at %s", life.To.UTC().Format(time.RFC3339)),
		Do: fmt.Sprintf("issue the next: batuta tls issue %s --cluster %s --dir DIR", id, p.Cluster)}
}

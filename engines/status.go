package engines

import (
	"context"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
)

// Status is the state of this candidate at one moment, as far as an engine's election has it. Its
// error is ctx's: the candidate has not answered, or does not run yet.
func (e *Election) Status(ctx context.Context) (batuta.Status, error) {
	answer := make(chan batuta.Status, 1)
	err := e.call(ctx, func() { answer <- e.status() })
	switch {
	case err == batuta.ErrClosed:
		return e.status(), nil // the loop has ended
	case err != nil:
		return batuta.Status{}, err
	}
	return <-answer, nil
}

func (e *Election) status() batuta.Status {
	v := e.Leader()
	s := batuta.Status{ID: e.ID(), Cluster: "default", Election: e.cfg.Election, Algorithm: e.engine.Name(), Guarantee: batuta.GuaranteeOneLeader, Fencing: true,
		Takeover: "lease", ClockDrift: e.cfg.Drift,
		Leader: v.Token.Leader.ID, LeaderAddress: v.Address, Epoch: v.Token.Epoch, Token: v.Token, Since: v.Since,
		Standing: batuta.StandingEligible, StandingSince: e.born, Advertise: e.cfg.Address,
		Timing: election.Timing{Heartbeat: e.cfg.Renew, TProcess: e.cfg.Lease}, Uptime: time.Since(e.born), Lost: map[batuta.Cause]uint64{}}
	if !v.Defined() {
		s.Epoch = v.Lost.Epoch
	}
	for cause, n := range e.lost {
		s.Lost[cause] = n
	}
	switch {
	case e.unfit != nil:
		s.Standing, s.StandingWhy = batuta.StandingUnhealthy, e.unfit.Error()
	case len(e.working) > 0 && !e.leading():
		s.Standing, s.StandingWhy = batuta.StandingDraining, "what it ran as leader has not stopped yet"
	case e.resigned:
		s.Standing, s.StandingWhy = batuta.StandingResigned, "it was asked to step down"
	case !e.standing && e.leads == 0:
		s.Standing, s.StandingWhy = batuta.StandingObserver, "nothing is there that it would lead for"
	case e.trouble.err != nil:
		s.StandingWhy = e.engine.Name() + ": " + e.trouble.err.Error()
	}
	s.Role = batuta.RoleUndefined
	switch {
	case e.IsLeader():
		s.Role = batuta.RoleLeader
	case v.Defined():
		s.Role = batuta.RoleFollower
	case s.Standing == batuta.StandingEligible:
		s.Role = batuta.RoleCandidate
	}
	return s
}

// Trace is empty: an engine decides, and keeps no record of why.
func (e *Election) Trace() []batuta.Record { return nil }

// Reasons is empty, as [Election.Trace] is.
func (e *Election) Reasons(time.Time) []batuta.Record { return nil }

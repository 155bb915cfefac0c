package engines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batuta-dev/batuta"
)

// This file is the goroutine that decides, and it holds all state. Calls of the engine run on other
// goroutines: the engine may take long, or never answer.

// look is what the looker has read.
type look struct {
	record Record
	err    error
	began  time.Duration // on the election's clock
}

// answer is what became of a claim, a renewal or a release.
type answer struct {
	what   call
	record Record
	err    error
	sent   time.Duration // on the election's clock, before the engine was asked
}

type call string

const (
	callLook    call = "look"
	callClaim   call = "claim"
	callRenew   call = "renew"
	callRelease call = "release"
)

func (e *Election) loop() {
	e.beside.Go(e.looker)
	end, cut := e.ctx.Done(), e.cut.Done()
	for !e.over() {
		e.advance()
		e.arm()
		var done chan struct{}
		select {
		case <-e.timer.C:
		case l := <-e.looks:
			e.checkLease()
			e.looked(l)
		case a := <-e.answers:
			e.checkLease()
			e.answered(a)
		case c := <-e.commands:
			e.checkLease()
			c.do()
			done = c.done
		case <-end:
			end = nil
			e.closing = true
			e.lose(batuta.CauseStopped)
		case <-cut: // end was before
			cut, e.cutShort = nil, true
		}
		if done != nil {
			close(done)
		}
	}
	e.end()
}

// over reports whether nothing is left to do.
func (e *Election) over() bool {
	if !e.closing || e.asked {
		return false
	}
	if len(e.working) > 0 {
		return e.cutShort
	}
	return !e.holds()
}

// end stops everything: nothing works, and the record is given up as far as the engine answers.
func (e *Election) end() {
	e.timer.Stop()
	if left := len(e.working); left > 0 {
		e.err = fmt.Errorf("%w: it ended without giving the record up; functions of Lead that had not returned: %d; have them return soon after their context ends", batuta.ErrClosed, left)
		e.cfg.Logger.Error("the election ends while functions of Lead run: another candidate may lead before they return", "functions", left)
	}
	if v := e.history.view(); v.Defined() {
		e.tellLost(v.Token, batuta.CauseStopped)
	}
	e.beside.Wait()
	if err := e.engine.Close(); err != nil {
		e.cfg.Logger.Warn("the engine does not close", "error", err)
	}
	e.history.End()
	close(e.done)
}

// holds reports whether the record may be ours.
func (e *Election) holds() bool { return e.mine.Version != "" }

// leading reports whether we lead; see also [Election.IsLeader].
func (e *Election) leading() bool { return e.token.Defined() }

// eligible reports whether this process is a candidate.
func (e *Election) eligible() bool {
	return (e.standing || e.leads > 0) && !e.resigned && e.unfit == nil && !e.closing && len(e.working) == 0
}

// checkLease ends a leadership whose time is over, before anything else can lengthen it.
func (e *Election) checkLease() {
	if !e.leading() || e.late() < 0 {
		return
	}
	if e.late() > e.cfg.Renew { // no timer is so late: this process was stopped
		e.lose(batuta.CauseStalled)
	} else {
		e.lose(batuta.CauseSilent)
	}
}

// advance does what is due.
func (e *Election) advance() {
	e.checkLease()
	now := e.clock.Now()
	if left, waits := e.aside(); waits && left <= 0 {
		e.resigned = false
	}
	if v := e.history.view(); v.Defined() && v.Token.Leader.ID != e.ID() && e.observer.expired(e.awake()) {
		e.loseOther(batuta.CauseSilent)
	}
	switch {
	case e.asked || now < e.retryAt:
	case e.releases():
		mine := e.mine
		e.ask(callRelease, func(ctx context.Context) (Record, error) { return Record{}, e.engine.Release(ctx, mine) })
	case e.holds():
		if now >= e.renewAt {
			mine := e.mine
			e.ask(callRenew, func(ctx context.Context) (Record, error) { return e.engine.Renew(ctx, mine) })
		}
	case e.eligible() && e.observer.free(e.awake()):
		seen, mine := e.observer.seen, Record{ID: e.ID(), Address: e.cfg.Address, Process: e.process, Lasts: e.cfg.Lease}
		e.trouble.claimed = e.observer.since
		e.ask(callClaim, func(ctx context.Context) (Record, error) { return e.engine.Claim(ctx, seen, mine) })
	}
}

// arm sets the timer to when something is due.
func (e *Election) arm() {
	now := e.clock.Now()
	wait := e.cfg.Lease
	due := func(at time.Duration) { wait = min(wait, at-now) }
	if e.leading() {
		due(e.until - e.cfg.Stop)
	}
	switch {
	case e.asked:
	case e.releases():
		due(e.retryAt)
	case e.holds():
		due(max(e.renewAt, e.retryAt))
	case e.eligible() && e.retryAt > now:
		due(e.retryAt)
	}
	if d, ok := e.observer.rest(e.awake()); ok {
		wait = min(wait, d)
	}
	if left, waits := e.aside(); waits {
		wait = min(wait, left)
	}
	e.timer.Reset(max(wait, 0))
}

// releases reports whether the record has only to be released: it is not for a leadership, nor for work.
func (e *Election) releases() bool { return e.holds() && !e.leading() && len(e.working) == 0 }

// aside is for how much longer a candidate that has resigned claims nothing, if only time ends that. No other
// candidate can claim while it holds the record.
func (e *Election) aside() (left time.Duration, waits bool) {
	return e.cfg.aside() - time.Since(e.freeFrom), e.resigned && !e.holds() && !e.freeFrom.IsZero()
}

// ask calls the engine on a goroutine of its own. The time is read before the call: a lease counts from then.
func (e *Election) ask(what call, f func(context.Context) (Record, error)) {
	e.asked = true
	sent := e.clock.Now()
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.asking())
	go func() {
		defer cancel()
		r, err := f(ctx)
		e.answers <- answer{what, r, err, sent} // the loop goes on until it has it
	}()
}

func (e *Election) answered(a answer) {
	e.asked = false
	now := e.clock.Now()
	e.callEnd = now
	e.note(a.what, a.err)
	switch {
	case a.err == nil && a.what == callRelease:
		e.drop()
		e.wake()
	case a.err == nil:
		e.mine = a.record
		e.until = a.sent + e.cfg.whole()
		e.renewAt = a.sent + e.cfg.Renew
		e.claimed(a)
	case errors.Is(a.err, ErrTaken):
		e.drop()
		e.lose(batuta.CauseSuperseded)
		e.retryAt = now + e.cfg.again()
		e.wake()
	case a.what == callRelease && e.closing:
		e.mine = Record{} // the lease has to end by itself
	default:
		e.retryAt = now + e.cfg.again()
		e.wake() // it may have been done all the same
	}
}

// drop notes that the record is not ours any more: the time aside counts from now.
func (e *Election) drop() {
	e.mine = Record{}
	if !e.history.view().Defined() {
		e.freeFrom = time.Now()
	}
}

// claimed begins a leadership, or lengthens it.
func (e *Election) claimed(a answer) {
	end := e.until - e.cfg.Stop
	switch {
	case e.leading():
		e.lasting.Store(int64(end))
	case a.what != callClaim:
	case !e.eligible() || e.clock.Now() >= end: // it came too late: it is released
	default:
		if v := e.history.view(); v.Defined() {
			e.loseOther(batuta.CauseSuperseded)
		}
		e.lasting.Store(int64(end))
		e.token = a.record.token()
		e.tellLeader(e.token, e.cfg.Address)
	}
}

// looked handles a record that was read.
func (e *Election) looked(l look) {
	e.note(callLook, l.err)
	if l.err != nil {
		e.observer.blind = true
		return // the view names the leader until its record can have run out: see advance
	}
	e.observer.see(l.record, e.awake())
	ours := l.record.held() && l.record.Process == e.process
	switch {
	case ours && !e.holds() && !e.asked && l.began >= e.callEnd:
		e.mine = l.record // of a claim without an answer: it is released
	case !ours && e.holds() && !e.asked && l.began >= e.callEnd:
		e.drop()
		e.lose(batuta.CauseSuperseded)
	}
	if !e.leading() && !ours {
		e.follow(l.record)
	}
}

// follow brings the view of a different candidate's leadership up to date.
func (e *Election) follow(r Record) {
	v := e.history.view()
	if v.Defined() && (v.Token != r.token() || !r.held()) {
		cause := batuta.CauseSilent
		if !r.held() && r.Resigned {
			cause = batuta.CauseResigned
		} else if r.held() {
			cause = batuta.CauseSuperseded
		}
		e.loseOther(cause)
	}
	if r.held() && !e.observer.expired(e.awake()) && r.ID != e.ID() && !e.history.view().Defined() {
		e.freeFrom = time.Time{}
		e.tellLeader(r.token(), r.Address)
	}
	if r.held() && r.ID == e.ID() {
		e.cfg.Logger.Debug("the record is held under this candidate's id by an earlier process, or by another with the same id; it is waited for")
	}
}

// resign gives leadership up for a while.
func (e *Election) resign() {
	if e.leading() {
		e.resigned = true
		e.lose(batuta.CauseResigned)
	}
}

// lose ends our leadership; its record is kept until the work has stopped.
func (e *Election) lose(cause batuta.Cause) {
	if !e.leading() {
		return
	}
	token := e.token
	e.token = batuta.Token{}
	e.lasting.Store(0)
	e.freeFrom = time.Now()
	e.cancelWork(token, cause)
	e.tellLost(token, cause)
}

// loseOther ends the leadership of a different candidate in this candidate's view.
func (e *Election) loseOther(cause batuta.Cause) {
	e.freeFrom = time.Now()
	e.resigned = false
	e.tellLost(e.history.view().Token, cause)
}

func (e *Election) tellLost(token batuta.Token, cause batuta.Cause) {
	now := time.Now()
	e.lost[cause]++
	e.history.add(batuta.Event{Time: now, Kind: batuta.EventLost, View: batuta.View{Election: e.cfg.Election, Since: now, Lost: token, Cause: cause}})
	e.cfg.Logger.Info("leadership ended", "leader", token.Leader.ID, "epoch", token.Epoch, "cause", string(cause))
}

func (e *Election) tellLeader(token batuta.Token, address string) {
	now := time.Now()
	e.history.add(batuta.Event{Time: now, Kind: batuta.EventLeader, View: batuta.View{Election: e.cfg.Election, Token: token, Address: address, Since: now}})
	e.cfg.Logger.Info("a member leads", "leader", token.Leader.ID, "epoch", token.Epoch)
}

// wake has the record looked at.
func (e *Election) wake() {
	select {
	case e.nudge <- struct{}{}:
	default:
	}
}

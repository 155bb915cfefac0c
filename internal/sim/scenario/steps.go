package scenario

import (
	"strings"
)

// form is a line of the language: its verb, its operands, and what it does. Reading, printing,
// the preconditions, the help and the page of the documentation use this table.
type form struct {
	verb     Verb
	operands []*operand
	does     string

	only   string // "manual", "automatic": the scripts that may have it; empty: in both
	undone bool   // only with "detector off": a detector would undo it
	demand bool   // it checks a result and does nothing

	from []Condition // the conditions that its members may be in; empty: any
	to   Condition   // their condition afterwards
}

// steps are all lines after the settings, except "end".
var steps = []form{
	{verb: Run, operands: ops(duration("a time", 0)), only: automatic, does: "let time pass; all together at most 24h"},
	{verb: At, operands: ops(duration("a time since the start", 0), &operand{form: "[STEP]"}), only: automatic, does: "let time pass until then, counted from the start"},
	{verb: repeat, operands: ops(&operand{form: "N … end"}), does: "the steps between, N times"},

	{verb: Crash, operands: ops(members("torn"), optional("torn")), from: conditions(Alive, Frozen), to: Dead,
		does: "the process dies; its kernel ends its connections. `torn`: what it sent last is lost"},
	{verb: PowerOff, operands: ops(members()), only: automatic, from: conditions(Alive, Frozen, Dead), to: Off, does: "the host disappears without a message"},
	{verb: Start, operands: ops(members()), only: automatic, from: conditions(Dead, Off), to: Alive, does: "an `absent` member starts"},
	{verb: Restart, operands: ops(members("rollback", "emptied", "moved"), optional("rollback", "emptied", "moved")), from: conditions(Dead, Off), to: Alive,
		does: "a dead one starts again. `rollback`: its file has lost its last write; `emptied`: its disk has lost all; `moved`: one that joined does so again, from another address"},
	{verb: Freeze, operands: ops(members()), from: conditions(Alive), to: Frozen, does: "the process is stopped, as by SIGSTOP"},
	{verb: Thaw, operands: ops(members()), from: conditions(Frozen), to: Alive, does: "it goes on, as by SIGCONT"},

	{verb: Cut, operands: ops(links(1, false)), only: automatic, does: "nothing arrives; what is sent waits, as in TCP"},
	{verb: Heal, operands: ops(links(0, false)), only: automatic, does: "ends cuts, rejections and delays, all without a link"},
	{verb: Partition, operands: ops(sides), only: automatic, does: "cuts every link between the sides"},
	{verb: Reset, operands: ops(links(1, false)), only: automatic, does: "ends the connections; what is on its way is lost"},
	{verb: Reject, operands: ops(links(1, false)), only: automatic, does: "what arrives is answered with a reset, as a firewall may: connections end, and dials are refused"},
	{verb: Delay, operands: ops(links(1, true), duration("a delay", 1)), only: automatic, does: "what leaves from now on takes so much longer"},

	{verb: Disk, operands: ops(member, diskState), only: automatic, does: "writes take longer, do not end, are refused, are refused if they need more room, work again"},
	{verb: Clock, operands: ops(member, clockChange), only: automatic,
		does: "`drift`: its clock runs faster by so many millionths, or slower; `jump`: its wall clock is set by D, which counts as the end of a pause if it is more than `T` ahead"},
	{verb: Times, operands: ops(member, times), only: automatic,
		does: "the `t_max` and `t_process` that it starts with from now on; members of which these differ refuse each other"},
	{verb: Campaign, operands: ops(members()), from: conditions(Alive), to: Alive, does: "the user asks for an election"},
	{verb: Resign, operands: ops(members()), only: automatic, from: conditions(Alive), to: Alive, does: "the user asks the leader to step down"},
	{verb: Pause, operands: ops(member, duration("how long leadership stays with the leader", 0)), only: automatic, from: conditions(Alive), to: Alive, does: "the user asks this member to pause the cluster for so long; `0s` ends that"},
	{verb: Candidacy, operands: ops(member, choice("on", "off")), only: automatic, from: conditions(Alive), to: Alive, does: "there is work for it as a leader, or none: then it is no candidate; after a restart there is"},
	{verb: Transfer, operands: ops(member, toMember), only: automatic, from: conditions(Alive), to: Alive, does: "the user asks the first, which leads, to hand over to the second only"},
	{verb: Health, operands: ops(member, choice("healthy", "unhealthy")), only: automatic, from: conditions(Alive), to: Alive, does: "what the member's own check finds"},
	{verb: Tell, operands: ops(member, saying), only: automatic, from: conditions(Alive), to: Alive, does: "the member publishes a word as metadata from now on, `-`: nothing; after a restart it publishes nothing"},

	{verb: Join, operands: ops(member, through), only: automatic, from: conditions(Dead, Off), to: Alive,
		does: "the process starts, knows only its own file, and asks these to admit it"},
	{verb: Leave, operands: ops(members()), only: automatic, from: conditions(Alive), to: Dead, does: "gives up its membership and ends"},
	{verb: Add, operands: ops(member, place, priority), only: automatic, from: conditions(Alive), to: Alive,
		does: "the user puts the first on the list, at the second; without `priority` its rank stays"},
	{verb: Remove, operands: ops(member, place), only: automatic, from: conditions(Alive), to: Alive, does: "the user removes the first from the list, at the second"},
	{verb: Duplicate, operands: ops(member, perhapsThrough), only: automatic, from: conditions(Alive), to: Alive,
		does: "a second process claims this id. `via`: it takes the place of a member that may be dead, listens elsewhere, and asks these to admit it"},

	{verb: Stand, operands: ops(member, named, candidacy), only: automatic, from: conditions(Alive), to: Alive,
		does: "it is a candidate for that named election, after a restart too; the greatest weight and number of seats of its candidates count"},
	{verb: Withdraw, operands: ops(member, named), only: automatic, from: conditions(Alive), to: Alive, does: "it is no candidate for that election any more"},
	{verb: Yield, operands: ops(member, named), only: automatic, from: conditions(Alive), to: Alive, does: "it gives up that election, if it leads it"},
	{verb: Give, operands: ops(member, named, toMember), only: automatic, from: conditions(Alive), to: Alive, does: "the user asks the first to have that election handed over to the second"},
	{verb: Drain, operands: ops(member, place), only: automatic, does: "the user asks the second to move all named elections away from the first, also those without another candidate"},
	{verb: Undrain, operands: ops(member, place), only: automatic, does: "the user asks the second to end that"},

	{verb: Suspect, operands: ops(pair), undone: true, does: "with `detector off`: the first one's detector reports the second as down"},
	{verb: Trust, operands: ops(pair), undone: true, does: "with `detector off`: the first one's detector reports the second as up again"},
	{verb: Deliver, operands: ops(oneWay), only: manual, does: "with `manual`: the oldest message arrives"},
	{verb: Fire, operands: ops(member, timer), only: manual, does: "with `manual`: a timer runs out"},
	{verb: Beat, operands: ops(oneWay), only: manual, does: "with `manual`: a leader sends a heartbeat"},
	{verb: Pass, only: manual, does: "with `manual` and a quorum: time passes until a member has something to do"},

	{verb: Agree, operands: ops(within), only: automatic, demand: true,
		does: "every connected group of living members agrees on its highest candidate, for longer than the detector takes to find that it was none; without `within`, in the bound computed from the timing"},
	{verb: Settle, operands: ops(but), only: automatic, demand: true,
		does: "every fault but death ends, then as `agree`, of those groups to which it is promised: each two members reach each other or a third that reaches both. With `but`, cuts stay, or disks that take a minute and more for a write; a member with such a disk need not lead. With a quorum, full disks stay too, and stop no member that has a log"},
	{verb: Mark, only: automatic, demand: true, does: "`changes`, `lost` and `messages` are counted from here"},
	{verb: Expect, operands: ops(expectation), only: automatic, demand: true, does: "so it is now: of all living members, or of those behind `on`"},
}

// The scripts that may have a step.
const (
	manual    = "manual"
	automatic = "automatic"
)

const repeat Verb = "repeat"

func ops(list ...*operand) []*operand { return list }

func conditions(list ...Condition) []Condition { return list }

// formOf maps each verb to its form.
var formOf = func() map[Verb]*form {
	m := map[Verb]*form{}
	for i := range steps {
		m[steps[i].verb] = &steps[i]
	}
	return m
}()

// String returns the step as a line of a script.
func (s Step) String() string {
	words := []string{string(s.Do)}
	if f := formOf[s.Do]; f != nil {
		for _, o := range f.operands {
			if o.write == nil {
				continue
			}
			if text := o.write(&s); text != "" {
				words = append(words, text)
			}
		}
	}
	return strings.Join(words, " ")
}

// usage returns the line as the help shows it.
func (f *form) usage() string {
	words := []string{string(f.verb)}
	for _, o := range f.operands {
		words = append(words, o.form)
	}
	return strings.Join(words, " ")
}

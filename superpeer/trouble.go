package superpeer

import (
	"fmt"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// Rounds after which a state that ends by itself counts as trouble, and after which the log reports it again.
const (
	shareTrouble  = 30
	servedTrouble = 10
	repeatTrouble = 300
)

// trouble is how long something has been wrong, in rounds.
type trouble struct {
	rounds rules.Round
	said   rules.Round // value of rounds at the last report in the log; 0: none yet
}

// count records that passed further rounds were wrong, or that all is right. report: the log
// reports that it is wrong; over: that it has ended.
func (t *trouble) count(wrong bool, passed, after rules.Round) (report, over bool) {
	if !wrong {
		over = t.said > 0
		*t = trouble{}
		return false, over
	}
	t.rounds += passed
	report = t.rounds >= after && (t.said == 0 || t.rounds-t.said >= repeatTrouble)
	if report {
		t.said = t.rounds
	}
	return report, false
}

// complain logs what has been wrong for a while; it runs once a round.
func (d *driver) complain(passed rules.Round) {
	log := d.m.cfg.Logger
	_, _, super := d.node.Holding()
	live, wanted := d.group.supers(super), d.cfg.Count(d.size)
	switch report, over := d.share.count(live != wanted, passed, shareTrouble); {
	case report:
		log.Warn("the number of super peers is wrong", "live", live, "wanted", wanted, "nodes", d.size, "for", d.lasted(&d.share).String(), "action", shareAction)
	case over:
		log.Info("the number of super peers is right again", "live", live)
	}
	unserved := !super && d.node.Home() == rules.None
	switch report, over := d.unserved.count(unserved, passed, servedTrouble); {
	case report:
		log.Warn("no super peer serves this node", "live", live, "wanted", wanted, "nodes", d.size, "for", d.lasted(&d.unserved).String(), "action", servedAction)
	case over:
		log.Info("this node is served again, or is a super peer")
	}
}

// What to do about trouble.
const (
	shareAction  = "check the load of the machines and the loss of the network; a longer Config.Round on all nodes helps"
	servedAction = "check that super peers can be reached and have room (Config.Capacity, Config.Fraction)"
)

// lasted returns how long t has lasted.
func (d *driver) lasted(t *trouble) time.Duration { return time.Duration(t.rounds) * d.m.cfg.Round }

// warnings returns texts for users on what has been wrong for a while.
func (s *Status) warnings(round time.Duration) []string {
	list := []string{}
	if s.ShareWrong >= (shareTrouble * round).Seconds() {
		list = append(list, fmt.Sprintf("%d super peers live, %d are wanted, for %.0f s: %s", s.Live, s.Wanted, s.ShareWrong, shareAction))
	}
	if s.Unserved >= (servedTrouble * round).Seconds() {
		list = append(list, fmt.Sprintf("no super peer has served this node for %.0f s: %s", s.Unserved, servedAction))
	}
	return list
}

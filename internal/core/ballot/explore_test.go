package ballot_test

import (
	"slices"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/ballot"
)

// A world is three members that reach each other, each a candidate, in one moment: no process ends and
// none is silent. It is explored in every order of its events.
type world struct {
	members [3]node
	links   [3][3][]message // what is on its way, in order
	breaks  int             // how many links may still break
}

type node struct {
	ballot   ballot.Ballot
	seen     uint64 // the highest epoch of a leadership
	answered uint64 // the highest epoch in an answer
	follows  election.Token
	attempts int
}

type message struct {
	question  *ballot.Question
	answer    *ballot.Answer
	withdrawn uint64
	leader    election.Token
}

func (m message) appendKey(key []byte) []byte {
	switch {
	case m.question != nil:
		return append(key, '?', byte(m.question.Number), byte(m.question.Token.Epoch))
	case m.answer != nil:
		return m.answer.AppendKey(append(key, '!'))
	case m.withdrawn != 0:
		return append(key, 'w', byte(m.withdrawn))
	}
	return append(key, 'l', byte(m.leader.Epoch), m.leader.Leader.ID[0])
}

// key distinguishes two states of a world.
func (w *world) key() string {
	key := []byte{byte(w.breaks)}
	for i := range w.members {
		n := &w.members[i]
		key = n.ballot.AppendKey(append(key, '|'))
		key = append(key, ' ', byte(n.seen), byte(n.answered), byte(n.attempts), byte(n.follows.Epoch))
		key = append(key, n.follows.Leader.ID...)
		for _, link := range w.links[i] {
			key = append(key, '>')
			for _, m := range link {
				key = m.appendKey(key)
			}
		}
	}
	return string(key)
}

func name(i int) election.ID { return election.ID(rune('1' + i)) }

func index(id election.ID) int { return int(id[0] - '1') }

func (w *world) clone() *world {
	c := *w
	for i := range w.members {
		c.members[i].ballot = w.members[i].ballot.Clone()
		for j := range w.links[i] {
			c.links[i][j] = slices.Clone(w.links[i][j])
		}
	}
	return &c
}

func (w *world) situation(i int, byRank bool) ballot.Situation {
	n := &w.members[i]
	return ballot.Situation{Rank: rank(name(i)), Listed: true, Highest: n.seen, Follows: n.follows, Stands: true, ByRank: byRank}
}

func (w *world) send(from int, to election.ID, m message) {
	w.links[from][index(to)] = append(w.links[from][index(to)], m)
}

func (w *world) others(i int) (ids []election.ID) {
	for j := range w.members {
		if j != i {
			ids = append(ids, name(j))
		}
	}
	return ids
}

func (w *world) ask(i int, byRank bool) bool {
	n := &w.members[i]
	if _, open := n.ballot.Running(); open || n.follows.Defined() || n.attempts == 0 {
		return false
	}
	q, own := n.ballot.Open(noon, w.situation(i, byRank), token(max(n.seen, n.answered)+1, name(i)), peers(w.others(i)...), 1)
	if own.Reason != ballot.Granted {
		return false
	}
	n.attempts--
	for _, to := range w.others(i) {
		w.send(i, to, message{question: &q})
	}
	return true
}

func (w *world) withdraw(i int, q ballot.Question, to []election.ID) {
	for _, id := range to {
		w.send(i, id, message{withdrawn: q.Number})
	}
}

// look acts on the result of the ballot of a member.
func (w *world) look(i int, byRank bool) {
	n := &w.members[i]
	r := n.ballot.Result(noon, w.situation(i, byRank))
	switch r.Outcome {
	case ballot.Won:
		q, _ := n.ballot.Running()
		n.follows, n.seen = q.Token, q.Token.Epoch
		n.ballot.Decided(q.Token)
		for _, to := range w.others(i) {
			w.send(i, to, message{leader: q.Token})
		}
	case ballot.Refused:
		n.answered = max(n.answered, r.Answer.Highest)
		q, to := n.ballot.Withdraw()
		w.withdraw(i, q, to)
	}
}

func (w *world) deliver(from, to int, byRank bool) bool {
	queue := w.links[from][to]
	if len(queue) == 0 {
		return false
	}
	m, n := queue[0], &w.members[to]
	w.links[from][to] = queue[1:]
	switch {
	case m.question != nil:
		replies, yielded, withdrawn := n.ballot.Asked(noon, w.situation(to, byRank), name(from), *m.question)
		for _, r := range replies {
			w.send(to, r.To, message{answer: &r.Answer})
		}
		w.withdraw(to, yielded, withdrawn)
	case m.answer != nil:
		n.ballot.Receive(name(from), *m.answer)
	case m.withdrawn != 0:
		n.ballot.Withdrawn(name(from), m.withdrawn)
	default:
		n.follows, n.seen = m.leader, max(n.seen, m.leader.Epoch)
		n.ballot.Decided(m.leader)
	}
	w.look(to, byRank)
	return true
}

// snap loses all that is on its way between two members, and connects them again.
func (w *world) snap(i, j int) bool {
	if w.breaks == 0 || len(w.links[i][j])+len(w.links[j][i]) == 0 {
		return false
	}
	w.breaks--
	w.links[i][j], w.links[j][i] = nil, nil
	for _, end := range [][2]int{{i, j}, {j, i}} {
		n := &w.members[end[0]]
		if q, open := n.ballot.Up(noon, peers(name(end[1]))[0]); open {
			w.send(end[0], name(end[1]), message{question: &q})
		}
		if n.follows.Leader.ID == name(end[0]) {
			w.send(end[0], name(end[1]), message{leader: n.follows})
		}
	}
	return true
}

func (w *world) leaders() (ids []election.ID) {
	for i, n := range w.members {
		if n.follows.Leader.ID == name(i) {
			ids = append(ids, name(i))
		}
	}
	return ids
}

// explore visits every state that can follow, each once. ends are those in which nothing is left to happen.
func explore(w *world, byRank bool, visited map[string]bool, check func(w *world, end bool)) {
	key := w.key()
	if visited[key] {
		return
	}
	visited[key] = true
	end := true
	step := func(event func(*world) bool) {
		if next := w.clone(); event(next) {
			end = false
			explore(next, byRank, visited, check)
		}
	}
	for i := range w.members {
		step(func(w *world) bool { return w.ask(i, byRank) })
		step(func(w *world) bool { // the disk answers
			n := &w.members[i]
			before := w.key()
			if q, open := n.ballot.Running(); open {
				n.ballot.Saved(q.Token.Epoch)
			}
			w.look(i, byRank)
			return w.key() != before
		})
		for j := range w.members {
			if i != j {
				step(func(w *world) bool { return w.deliver(i, j, byRank) })
			}
			if i < j {
				step(func(w *world) bool { return w.snap(i, j) })
			}
		}
	}
	check(w, end)
}

func TestEveryOrderOfEventsGivesOneLeader(t *testing.T) {
	for _, c := range []struct {
		why      string
		byRank   bool
		seen     [3]uint64
		attempts [3]int
		breaks   int
	}{
		{"all ask once, by rank", true, [3]uint64{}, [3]int{1, 1, 1}, 0},
		{"all ask once", false, [3]uint64{}, [3]int{1, 1, 1}, 0},
		{"two ask, the lower has seen a higher epoch", true, [3]uint64{0, 4, 0}, [3]int{0, 1, 3}, 0},
		{"two ask, and a link breaks", true, [3]uint64{}, [3]int{0, 1, 1}, 1},
		{"two ask, and a link breaks, rank does not count", false, [3]uint64{}, [3]int{0, 1, 1}, 1},
	} {
		w := &world{breaks: c.breaks}
		for i := range w.members {
			w.members[i] = node{ballot: ballot.New(name(i), T), seen: c.seen[i], attempts: c.attempts[i]}
		}
		visited, ends := map[string]bool{}, 0
		explore(w, c.byRank, visited, func(w *world, end bool) {
			leaders := w.leaders()
			if len(leaders) > 1 {
				t.Fatalf("%s: %v lead at the same time: %v", c.why, leaders, w)
			}
			if !end {
				return
			}
			if ends++; len(leaders) == 0 && c.breaks == 0 {
				t.Fatalf("%s: no member leads at the end: %v", c.why, w)
			}
			if c.byRank && c.breaks == 0 && leaders[0] != "3" {
				t.Fatalf("%s: %s leads, and outranks not all", c.why, leaders[0])
			}
		})
		if ends == 0 {
			t.Errorf("%s: no end was reached", c.why)
		}
		t.Logf("%s: %d states, %d ends", c.why, len(visited), ends)
	}
}

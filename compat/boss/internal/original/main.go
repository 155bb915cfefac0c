// Command original is a node of the system of docs/sources.md, "Scrapper", without any support
// for batuta: Bully by IP address, JSON after two bytes of length. It shares no code with
// package boss, so that the tests have an independent node.
//
//	original -ip 172.18.0.4 -peers 172.18.0.3:8080,172.18.0.5:8080
//
// It prints {"listening": IP}, then {"boss": IP or null, "i_am_boss": bool} whenever that
// changes. boss is the node at the remote end of its persistent connection, or this node if it
// leads. It also prints what an election makes it do.
//
// It has the habits of the original program, the odd ones too:
//   - its question to a node carries node_port, but neither ip nor port;
//   - a newcomer follows any node that claims to be the boss, whatever its address;
//   - a boss that receives a higher new_boss presents itself to that boss, and goes on
//     answering is_boss true until it loses an election; meanwhile it does not
//     watch that boss;
//   - a node that receives election or new_boss leaves its own boss first;
//   - a node that cannot be reached, and a boss or a subordinate that is lost, is
//     forgotten until it identifies itself;
//   - a connection that has ended is noticed at the next check, and a node that has
//     never sent a heartbeat is never missed;
//   - a boss keeps a connection with a subordinate and closes a second at once, until a
//     check has found the first dead;
//   - a new boss connects to nodes that have not come by then; they close that
//     connection, and the next check forgets them.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// config is the command line. The default times are those of the original.
type config struct {
	ip    string
	port  int
	peers string
	text  bool

	phase                    time.Duration
	check, beat, death       time.Duration
	answer, find, connect    time.Duration
	beforeFollowing          time.Duration
	beforePresenting, settle time.Duration
}

func parse() (c config) {
	flag.StringVar(&c.ip, "ip", "", "its address")
	flag.IntVar(&c.port, "port", 8080, "where it listens, and where a node listens that does not say")
	flag.StringVar(&c.peers, "peers", "", "IP:PORT of the others, separated by commas")
	flag.BoolVar(&c.text, "text", false, "rank addresses as text, as the original does, not by value")
	flag.DurationVar(&c.phase, "phase", 0, "how much later than the others' its checks are")
	flag.DurationVar(&c.check, "check", 30*time.Second, "between two checks of its connections")
	flag.DurationVar(&c.beat, "beat", 30*time.Second, "between two heartbeats; the first is sent at once")
	flag.DurationVar(&c.death, "death", 90*time.Second, "since the last heartbeat, that is a node's death")
	flag.DurationVar(&c.answer, "answer", 3*time.Second, "how long an election waits for an answer")
	flag.DurationVar(&c.find, "find", 5*time.Second, "how long a newcomer waits for each node")
	flag.DurationVar(&c.connect, "connect", 5*time.Second, "how long a persistent connection may take")
	flag.DurationVar(&c.beforeFollowing, "before-following", time.Second, "between an announcement and presenting itself")
	flag.DurationVar(&c.beforePresenting, "before-presenting", 300*time.Millisecond, "between finding a boss and presenting itself")
	flag.DurationVar(&c.settle, "settle", 2*time.Second, "between announcing itself and connecting to those that have not come")
	flag.Parse()
	return c
}

func main() {
	n := &node{config: parse(), known: map[string]int{}, subordinates: map[string]*persistent{}}
	for _, peer := range strings.FieldsFunc(n.peers, func(r rune) bool { return r == ',' }) {
		host, port, err := net.SplitHostPort(peer)
		number, bad := strconv.Atoi(port)
		if err != nil || bad != nil {
			log.Fatalf("-peers %q: give IP:PORT,IP:PORT", n.peers)
		}
		n.known[host] = number
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(n.ip, strconv.Itoa(n.port)))
	if err != nil {
		log.Fatal(err)
	}
	n.say(map[string]any{"listening": n.ip})
	go n.accept(listener)
	go n.checks()
	if !n.findBoss() {
		n.callElections()
	}
	n.show()
	select {}
}

// frame is a message. Fields that its sender leaves out are nil or empty.
type frame struct {
	Type        string `json:"type"`
	NodeType    string `json:"node_type,omitempty"`
	IP          string `json:"ip,omitempty"`
	Port        int    `json:"port,omitempty"`
	NodePort    int    `json:"node_port,omitempty"`
	IsBoss      *bool  `json:"is_boss,omitempty"`
	IsTemporary *bool  `json:"is_temporary,omitempty"`
	MyID        string `json:"my_id,omitempty"`
	IsBusy      *bool  `json:"is_busy,omitempty"`
	Timestamp   string `json:"timestamp,omitempty"`
}

func said(b *bool) bool { return b != nil && *b }

// write sends the length and the body separately, as the original does.
func write(nc net.Conn, f frame) error {
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if _, err := nc.Write([]byte{byte(len(body) >> 8), byte(len(body))}); err != nil {
		return err
	}
	_, err = nc.Write(body)
	return err
}

// node is the state of the program.
type node struct {
	config

	mu           sync.Mutex
	known        map[string]int // guarded: the nodes' ports
	subordinates map[string]*persistent
	boss         *persistent
	leads        bool

	printing sync.Mutex // before mu
	shown    string
}

func (n *node) say(line map[string]any) {
	n.printing.Lock()
	defer n.printing.Unlock()
	print(line)
}

func print(line map[string]any) {
	line["t"] = time.Now().Format("15:04:05.000")
	b, _ := json.Marshal(line)
	fmt.Fprintln(os.Stdout, string(b))
}

// show prints the boss if it has changed.
func (n *node) show() {
	n.printing.Lock()
	defer n.printing.Unlock()
	n.mu.Lock()
	boss := any(nil)
	switch {
	case n.boss != nil && n.boss.alive():
		boss = n.boss.ip
	case n.leads:
		boss = n.ip
	}
	line := map[string]any{"boss": boss, "i_am_boss": n.leads}
	now := fmt.Sprint(line)
	changed := now != n.shown
	n.shown = now
	n.mu.Unlock()
	if changed {
		print(line)
	}
}

// above reports whether the node at a ranks above the node at b.
func (n *node) above(a, b string) bool {
	if n.text {
		return a > b
	}
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && y.Less(x)
}

func (n *node) leading() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leads
}

func (n *node) setLeading(leads bool) {
	n.mu.Lock()
	n.leads = leads
	n.mu.Unlock()
}

// address returns where a node listens, or the default port if that is unknown.
func (n *node) address(ip string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	port, ok := n.known[ip]
	if !ok {
		port = n.port
	}
	return net.JoinHostPort(ip, strconv.Itoa(port))
}

func (n *node) forget(ip string) {
	n.mu.Lock()
	delete(n.known, ip)
	n.mu.Unlock()
}

func (n *node) identification(leads bool) frame {
	return frame{Type: "identification", NodeType: "scrapper", IP: n.ip, Port: n.port, IsBoss: &leads}
}

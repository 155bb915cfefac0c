package main

import (
	"net"
	"slices"
	"time"
)

// findBoss asks all nodes to identify themselves, and follows any that claims to lead.
func (n *node) findBoss() (found bool) {
	for _, ip := range n.knownNodes() {
		no, yes := n.leading(), true
		r, ok := n.once(ip, frame{Type: "identification", NodeType: "scrapper", NodePort: n.port, IsBoss: &no, IsTemporary: &yes}, n.find, true)
		if ok && r.Type == "identification" && said(r.IsBoss) {
			time.Sleep(n.beforePresenting)
			found = n.follow(ip) || found
		}
	}
	return found
}

func (n *node) knownNodes() (ips []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ip := range n.known {
		ips = append(ips, ip)
	}
	slices.Sort(ips)
	return ips
}

// callElections asks the higher nodes, the highest first, and leads if none answers.
func (n *node) callElections() {
	var higher []string
	for _, ip := range n.knownNodes() {
		if n.above(ip, n.ip) {
			higher = append(higher, ip)
		}
	}
	slices.SortFunc(higher, func(a, b string) int {
		if n.above(a, b) {
			return -1
		}
		return 1
	})
	n.say(map[string]any{"calls": "election", "higher": higher})
	for _, ip := range higher {
		r, ok := n.once(ip, frame{Type: "election", IP: n.ip, Port: n.port}, n.answer, true)
		if ok && r.Type == "election_response" {
			n.say(map[string]any{"answered": ip})
			n.setLeading(false)
			n.show()
			return // and waits for new_boss, forever if need be
		}
	}
	n.becomeBoss()
}

// becomeBoss leads, drops its former subordinates and announces itself to all nodes.
func (n *node) becomeBoss() {
	n.setLeading(true)
	n.leave()
	n.mu.Lock()
	former := n.subordinates
	n.subordinates = map[string]*persistent{}
	n.mu.Unlock()
	for _, l := range former {
		l.end()
	}
	told := n.knownNodes()
	n.say(map[string]any{"announces": told})
	for _, ip := range told {
		n.once(ip, frame{Type: "new_boss", NodeType: "scrapper", IP: n.ip, Port: n.port}, n.answer, false)
	}
	time.Sleep(n.settle)
	for _, ip := range told {
		n.mu.Lock()
		come := n.subordinates[ip] != nil
		n.mu.Unlock()
		if come {
			continue
		}
		nc, err := n.dial(ip, n.connect)
		if err != nil {
			n.forget(ip)
			continue
		}
		n.subordinate(ip, nc)
	}
}

// subordinate keeps a connection with a subordinate; false: it has a connection already.
func (n *node) subordinate(ip string, nc net.Conn) bool {
	n.mu.Lock()
	if n.subordinates[ip] != nil {
		n.mu.Unlock()
		return false
	}
	write(nc, n.identification(true)) // before the first heartbeat
	l := n.keep(ip, nc)
	n.subordinates[ip] = l
	n.mu.Unlock()
	l.send(n.identification(true)) // and again, as the original does
	return true
}

// follow presents this node to a boss, unless it has a boss.
func (n *node) follow(ip string) bool {
	n.mu.Lock()
	has := n.boss != nil && n.boss.alive()
	n.mu.Unlock()
	if has {
		return true
	}
	nc, err := n.dial(ip, n.connect)
	if err != nil {
		n.say(map[string]any{"unreachable": ip})
		n.forget(ip)
		return false
	}
	f := n.identification(false)
	f.IsTemporary = new(bool)
	write(nc, f)
	n.mu.Lock()
	n.boss = n.keep(ip, nc)
	n.mu.Unlock()
	n.show()
	return true
}

func (n *node) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			continue
		}
		go n.serve(nc)
	}
}

// serve reads the single frame of an incoming connection.
func (n *node) serve(nc net.Conn) {
	ip, _, _ := net.SplitHostPort(nc.RemoteAddr().String())
	nc.SetDeadline(time.Now().Add(n.find))
	f, err := read(nc)
	if err != nil {
		nc.Close()
		return
	}
	sender := f.IP
	if sender == "" {
		sender = ip
	}
	switch f.Type {
	case "identification":
		n.identified(nc, ip, f)
		return
	case "election":
		n.leave()
		if n.above(n.ip, sender) {
			write(nc, frame{Type: "election_response", IP: n.ip, Port: n.port})
			nc.Close()
			n.callElections()
		}
	case "new_boss":
		n.leave()
		nc.Close()
		if n.leading() && !n.above(sender, n.ip) {
			return
		}
		time.Sleep(n.beforeFollowing)
		if !n.follow(sender) {
			n.callElections()
		}
	}
	nc.Close()
}

// identified handles an identification: an unknown node gets a reply to its question, a boss
// keeps a subordinate, and any node is registered.
func (n *node) identified(nc net.Conn, ip string, f frame) {
	ours := f.NodeType == "" || f.NodeType == "scrapper"
	if ours {
		port := f.Port
		if port == 0 {
			port = n.port
		}
		n.mu.Lock()
		n.known[ip] = port
		n.mu.Unlock()
	}
	leads := n.leading()
	if said(f.IsTemporary) {
		write(nc, n.identification(leads))
		nc.Close()
		return
	}
	if !ours || !leads || !n.subordinate(ip, nc) {
		nc.Close()
	}
}

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

func read(nc net.Conn) (f frame, err error) {
	var head [2]byte
	if _, err = io.ReadFull(nc, head[:]); err != nil {
		return f, err
	}
	body := make([]byte, binary.BigEndian.Uint16(head[:]))
	if _, err = io.ReadFull(nc, body); err != nil {
		return f, err
	}
	return f, json.Unmarshal(body, &f)
}

func (n *node) dial(ip string, wait time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: wait, LocalAddr: &net.TCPAddr{IP: net.ParseIP(n.ip)}, KeepAlive: -1}
	return d.Dial("tcp", n.address(ip))
}

// once sends a frame on its own connection, and waits for the reply if reply is set. It forgets
// a node that cannot be reached.
func (n *node) once(ip string, f frame, wait time.Duration, reply bool) (answer frame, ok bool) {
	nc, err := n.dial(ip, wait)
	if err == nil {
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(wait))
		if err = write(nc, f); err == nil && reply {
			answer, err = read(nc)
		}
	}
	switch {
	case errors.Is(err, io.EOF): // closed without a reply: it lives
		return answer, false
	case err != nil:
		n.forget(ip)
		return answer, false
	}
	return answer, true
}

// persistent is a connection between a boss and a subordinate.
type persistent struct {
	ip string
	nc net.Conn

	writing sync.Mutex
	mu      sync.Mutex
	ended   bool
	heard   time.Time // its last heartbeat; zero: none yet
}

func (l *persistent) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.ended
}

// dead reports whether a check finds that the connection or its heartbeats have ended.
func (l *persistent) dead(after time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended || !l.heard.IsZero() && time.Since(l.heard) > after
}

func (l *persistent) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.nc.Close()
}

func (l *persistent) send(f frame) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if write(l.nc, f) != nil {
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
	}
}

// keep takes a connection into use.
func (n *node) keep(ip string, nc net.Conn) *persistent {
	nc.SetDeadline(time.Time{})
	l := &persistent{ip: ip, nc: nc}
	go n.beats(l)
	go n.listen(l)
	return l
}

func (n *node) beats(l *persistent) {
	for l.alive() {
		l.send(frame{Type: "heartbeat", MyID: "scrapper-" + n.ip, IsBusy: new(bool), Timestamp: time.Now().Format(time.RFC3339)})
		n.show()
		time.Sleep(n.beat)
	}
}

func (n *node) listen(l *persistent) {
	for l.alive() {
		f, err := read(l.nc)
		if err != nil {
			l.mu.Lock()
			l.ended = true
			l.mu.Unlock()
			n.show()
			return
		}
		switch {
		case f.Type == "heartbeat":
			l.mu.Lock()
			l.heard = time.Now()
			l.mu.Unlock()
		case f.Type == "identification" && said(f.IsBoss):
			n.mu.Lock()
			if !n.leads {
				n.boss = l
			}
			n.mu.Unlock()
		}
		n.show()
	}
}

// leave ends the connection with the boss.
func (n *node) leave() {
	n.mu.Lock()
	boss := n.boss
	n.boss = nil
	n.mu.Unlock()
	if boss != nil {
		boss.end()
	}
	n.show()
}

// checks examines the persistent connections at intervals.
func (n *node) checks() {
	time.Sleep(n.phase)
	for {
		time.Sleep(n.check)
		n.mu.Lock()
		leads, boss := n.leads, n.boss
		var lost []*persistent
		for ip, l := range n.subordinates {
			if leads && l.dead(n.death) {
				lost = append(lost, l)
				delete(n.subordinates, ip)
				delete(n.known, ip)
			}
		}
		n.mu.Unlock()
		for _, l := range lost {
			l.end()
		}
		if !leads && boss != nil && boss.dead(n.death) {
			n.say(map[string]any{"lost": boss.ip})
			n.leave()
			n.forget(boss.ip)
			go n.callElections()
		}
	}
}

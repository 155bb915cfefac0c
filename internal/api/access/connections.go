package access

import (
	"net"
	"net/http"
	"sync"
)

// EachClient closes connections of a client that has that many (see [http.Server.ConnState]). A client is an IP
// address, of IPv6 64 bits, or a user of a Unix socket. All users together have twice as many; the listener bounds TCP.
func EachClient(most int) func(net.Conn, http.ConnState) {
	var mu sync.Mutex
	clients, number := map[net.Conn]string{}, map[string]int{}
	return func(c net.Conn, s http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch from := clients[c]; s {
		case http.StateNew:
			from = client(c)
			clients[c] = from
			if number[from]++; number[from] > most || len(clients) > 2*most && !overTCP(c) {
				c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			delete(clients, c)
			if number[from]--; number[from] == 0 {
				delete(number, from)
			}
		}
	}
}

func overTCP(c net.Conn) bool {
	_, ok := c.RemoteAddr().(*net.TCPAddr)
	return ok
}

// client gives what counts as the client of a connection.
func client(c net.Conn) string {
	if uid, ok := userAt(c); ok {
		return uid
	}
	at, ok := c.RemoteAddr().(*net.TCPAddr)
	if ok && at.IP.To4() == nil {
		return string(at.IP.Mask(net.CIDRMask(64, 128))) // a machine chooses the rest
	} else if ok {
		return at.IP.String()
	}
	return ""
}

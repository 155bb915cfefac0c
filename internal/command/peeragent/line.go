package peeragent

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/superpeer"
)

// Line is an event for programs: "--events json" and /v1/events.
type Line struct {
	Time  api.Stamp `json:"time"`
	Event string    `json:"event"` // ready, super, ordinary, home, client or behind
	ID    string    `json:"id"`    // of the node that saw it

	// of ready
	Overlay  string  `json:"overlay,omitempty"`
	Listen   string  `json:"listen,omitempty"`
	HTTP     string  `json:"http,omitempty"`
	Method   string  `json:"method,omitempty"`
	Fraction float64 `json:"fraction,omitempty"`
	Capacity int     `json:"capacity,omitempty"`

	// of super and ordinary
	Token   *int32 `json:"token,omitempty"`
	Version uint32 `json:"version,omitempty"`

	// of home
	Home  *string  `json:"home,omitempty"` // "": no super peer serves the node
	RTTms *float64 `json:"rtt_ms,omitempty"`

	// of client
	Client string `json:"client,omitempty"`
	State  string `json:"state,omitempty"` // came or went

	Address string `json:"address,omitempty"` // of the home or client
	Service string `json:"service,omitempty"`
}

// Ready returns an agent's first line.
func Ready(s superpeer.Status, http string) Line {
	return Line{Time: api.Stamp{Time: time.Now()}, Event: "ready", ID: s.ID, Overlay: s.Overlay, Listen: s.Address,
		HTTP: http, Method: s.Method, Fraction: s.Fraction, Capacity: s.Capacity}
}

// LineOf returns an event that node id saw.
func LineOf(id string, ev superpeer.Event) Line {
	l := Line{Time: api.Stamp{Time: ev.Time}, Event: ev.Kind, ID: id}
	switch ev.Kind {
	case superpeer.EventSuper, superpeer.EventOrdinary:
		l.Token, l.Version = &ev.Token, ev.Version
	case superpeer.EventHome:
		l.Home = new("")
		if ev.Home != nil {
			l.Home, l.Address, l.Service = &ev.Home.ID, ev.Home.Address, ev.Home.Service
			if ev.RTT >= 0 {
				l.RTTms = &ev.RTT
			}
		}
	case superpeer.EventClient:
		l.Client, l.Address, l.Service, l.State = ev.Client.ID, ev.Client.Address, ev.Client.Service, "went"
		if ev.Came {
			l.State = "came"
		}
	}
	return l
}

// BehindLine reports to a reader of node id's events that it was too slow and has missed some.
func BehindLine(id string, at time.Time) Line {
	return Line{Time: api.Stamp{Time: at}, Event: "behind", ID: id}
}

// WriteJSON prints l as a line of JSON.
func (l Line) WriteJSON(w io.Writer) error {
	body, err := json.Marshal(l)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", body)
	}
	return err
}

// WriteText prints l for a user.
func (l Line) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s  %s\n", l.Time.Local().Format("15:04:05.000"), l.text())
	return err
}

func (l *Line) text() string {
	switch l.Event {
	case "ready":
		http := ""
		if l.HTTP != "" {
			http = ", HTTP on " + l.HTTP
		}
		return fmt.Sprintf("node %s of overlay %s listens on %s%s", l.ID, l.Overlay, l.Listen, http)
	case superpeer.EventSuper:
		return fmt.Sprintf("%s is a super peer (token %d, version %d)", l.ID, *l.Token, l.Version)
	case superpeer.EventOrdinary:
		return fmt.Sprintf("%s is a super peer no longer (token %d)", l.ID, *l.Token)
	case superpeer.EventHome:
		if l.Home == nil || *l.Home == "" {
			return l.ID + " has no super peer"
		}
		way := ""
		if l.RTTms != nil {
			way = fmt.Sprintf(", %.1f ms away", *l.RTTms)
		}
		return fmt.Sprintf("%s is served by %s at %s%s", l.ID, *l.Home, l.Address, way)
	case "behind":
		return "these events were read too slowly, and some are left out: what follows is so now"
	case superpeer.EventClient:
		return fmt.Sprintf("client %s at %s %s", l.Client, l.Address, l.State)
	}
	return l.Event
}

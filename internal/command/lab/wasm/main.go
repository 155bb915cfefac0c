//go:build js && wasm

// Command wasm is the lab's simulator for a browser: it sets the global object batuta,
// and the functions of that object take and return text, JSON if it is more than a line.
//
//	GOOS=js GOARCH=wasm go build -trimpath -ldflags='-s -w' ./internal/command/lab/wasm
package main

import (
	"encoding/json"
	"strconv"
	"syscall/js"
	"time"

	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/lab/player"
	"github.com/batuta-dev/batuta/internal/command/lab/wasm/page"
	"github.com/batuta-dev/batuta/internal/sim/explore"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

func main() {
	page.Serve(map[string]any{
		"play":   page.Call(func(a []js.Value) any { return player.Play(a[0].String()) }),
		"insert": page.Call(func(a []js.Value) any { return edited(player.Insert(a[0].String(), millis(a[1]), a[2].String())) }),
		"extend": page.Call(func(a []js.Value) any { return edited(player.Extend(a[0].String(), millis(a[1])), nil) }),
		"explore": page.Begin(func(c player.ExploreConfig) (err error) {
			exploration, err = player.Explore(c)
			return err
		}),
		"exploreGrow":   page.Call(func(a []js.Value) any { return exploration.Grow(a[0].Int()) }),
		"exploreGraph":  page.Call(func([]js.Value) any { return exploration.Graph() }),
		"exploreScript": page.Call(func(a []js.Value) any { return edited(exploration.Script(a[0].Int(), a[1].Int())) }),
		"explorePlaces": page.Call(func(a []js.Value) any {
			var list []int
			_ = json.Unmarshal([]byte(a[0].String()), &list) // written by the page itself; if it is invalid there are no places
			places := []explore.Place{}
			for _, no := range list {
				places = append(places, exploration.Place(no))
			}
			return places
		}),
		"soak": page.Call(func(a []js.Value) any { return player.Soak(soakConfig(a[0])) }),
		"schedule": page.Call(func(a []js.Value) any {
			seed, err := strconv.ParseUint(a[1].String(), 10, 64)
			if err != nil {
				return edited("", err)
			}
			return edited(player.Schedule(soakConfig(a[0]), seed), nil)
		}),
		"about": page.Call(func([]js.Value) any {
			return map[string]any{"algorithms": algorithm.Names(), "probes": algorithm.Probes(), "language": scenario.Help()}
		}),
	})
}

// exploration is the present exploration: the page asks for its states in turn.
var exploration *explore.Walk

func millis(v js.Value) time.Duration { return time.Duration(v.Float() * float64(time.Millisecond)) }

func edited(text string, err error) any { return page.Outcome(map[string]string{"text": text}, err) }

func soakConfig(v js.Value) (c player.SoakConfig) {
	_ = json.Unmarshal([]byte(v.String()), &c) // written by the page itself; if it is invalid nothing is soaked
	return c
}

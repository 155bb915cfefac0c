//go:build js && wasm

// Command superpeers is the lab's simulator of super peers for a browser.
package main

import (
	"syscall/js"

	"github.com/batuta-dev/batuta/internal/command/lab/player/overlay"
	"github.com/batuta-dev/batuta/internal/command/lab/wasm/page"
)

// shown is the overlay that is looked at.
var shown *overlay.Overlay

func main() {
	page.Serve(map[string]any{
		"superpeers": page.Begin(func(c overlay.Config) (err error) {
			shown, err = overlay.New(c)
			return err
		}),
		"superpeersRound": page.Call(func([]js.Value) any { return shown.Round() }),
	})
}

//go:build js && wasm

// Command superpeers is the lab's simulator of super peers for a browser.
package main

import (
	"encoding/json"
	"syscall/js"

	"github.com/batuta-dev/batuta/internal/lab/player/overlay"
	"github.com/batuta-dev/batuta/internal/lab/wasm/page"
)

// shown is the overlay that is looked at.
var shown *overlay.Overlay

func main() {
	page.Serve(map[string]any{
		"superpeers": page.Call(func(a []js.Value) any {
			var c overlay.Config
			err := json.Unmarshal([]byte(a[0].String()), &c)
			if err == nil {
				shown, err = overlay.New(c)
			}
			if err != nil {
				return map[string]string{"error": err.Error()}
			}
			return map[string]bool{"begun": true}
		}),
		"superpeersRound": page.Call(func([]js.Value) any { return shown.Round() }),
	})
}

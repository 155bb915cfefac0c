//go:build js && wasm

// Package page gives a page in a browser functions of Go.
package page

import (
	"encoding/json"
	"syscall/js"
)

// Serve sets the global object batuta to these functions, for as long as the page lasts.
func Serve(functions map[string]any) {
	js.Global().Set("batuta", js.ValueOf(functions))
	select {}
}

// Call makes a function that gives JSON.
func Call(do func([]js.Value) any) js.Func {
	return js.FuncOf(func(_ js.Value, args []js.Value) any {
		text, err := json.Marshal(do(args))
		if err != nil {
			text, _ = json.Marshal(map[string]string{"error": err.Error()})
		}
		return string(text)
	})
}

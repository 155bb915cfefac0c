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
			text, _ = json.Marshal(Outcome(nil, err))
		}
		return string(text)
	})
}

// Begin makes a function that takes a configuration in JSON, and returns whether what it
// configures has begun.
func Begin[C any](begin func(C) error) js.Func {
	return Call(func(args []js.Value) any {
		var c C
		err := json.Unmarshal([]byte(args[0].String()), &c)
		if err == nil {
			err = begin(c)
		}
		return Outcome(map[string]bool{"begun": true}, err)
	})
}

// Outcome is v or, in its place, what is wrong.
func Outcome(v any, err error) any {
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return v
}

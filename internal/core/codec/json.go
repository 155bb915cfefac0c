//go:build js

// Package codec encodes the messages and records of a simulation.
package codec

import "encoding/json"

// Raw is a part that is encoded already.
type Raw = json.RawMessage

// Codec encodes and decodes: the page's simulator has JSON already.
type Codec struct{}

// New makes a Codec.
func New(int) Codec { return Codec{} }

// Marshal encodes v.
func (Codec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal decodes into v, which is a pointer.
func (Codec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

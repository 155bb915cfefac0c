//go:build !js

// Package codec encodes the messages about named elections and the records of quorum: as CBOR, except
// in the simulator in a browser, which reads no hostile bytes: it has JSON already.
package codec

import "github.com/fxamacker/cbor/v2"

// Raw is a part that is encoded already.
type Raw = cbor.RawMessage

// Codec encodes and decodes.
type Codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// New makes a Codec that refuses lists of more than so many elements.
func New(elements int) Codec {
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err) // our own options are wrong
	}
	dec, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		MaxNestedLevels: 6, MaxArrayElements: elements, MaxMapPairs: 64}.DecMode()
	if err != nil {
		panic(err)
	}
	return Codec{enc, dec}
}

// Marshal encodes v.
func (c Codec) Marshal(v any) ([]byte, error) { return c.enc.Marshal(v) }

// Unmarshal decodes into v, which is a pointer.
func (c Codec) Unmarshal(data []byte, v any) error { return c.dec.Unmarshal(data, v) }

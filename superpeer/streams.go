package superpeer

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// This file refuses streams that would end the process within memberlist: it allocates a message of
// any announced size, and reads the first byte of what decompresses to nothing.

// Kinds of stream, in memberlist's first byte.
const (
	streamUser       = 8
	streamCompressed = 9 // no node sends it: see memberlistConfig
	streamLabel      = 244
)

var errStream = errors.New("a stream that no node sends")

// sifted is a stream that checks its beginning at the first read.
type sifted struct {
	net.Conn
	in io.Reader // nil: it is not checked yet
}

// Read implements [io.Reader].
func (s *sifted) Read(b []byte) (int, error) {
	if s.in == nil {
		from, read := bufio.NewReader(s.Conn), new(bytes.Buffer)
		if err := sift(io.TeeReader(from, read)); errors.Is(err, errStream) {
			return 0, err
		}
		s.in = io.MultiReader(read, from) // it meets other errors again
	}
	return s.in.Read(b)
}

// sift reads the beginning of a stream, byte by byte: no more than has to arrive.
func sift(in io.Reader) error {
	kind, err := next(in)
	if kind == streamLabel && err == nil {
		size, _ := next(in)
		if _, err = io.CopyN(io.Discard, in, int64(size)); err == nil {
			kind, err = next(in)
		}
	}
	switch {
	case err != nil:
		return err
	case kind == streamCompressed:
		return errStream
	case kind != streamUser:
		return nil
	}
	// A map of MessagePack with one field, the size of the message.
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return err
	}
	if head[0] != 0x81 || head[1]&0xe0 != 0xa0 {
		return errStream
	}
	if _, err := io.CopyN(io.Discard, in, int64(head[1]&0x1f)); err != nil {
		return err
	}
	size, err := number(in)
	if err == nil && size > maxMessage {
		err = errStream
	}
	return err
}

func next(in io.Reader) (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(in, b[:])
	return b[0], err
}

// number reads a number of MessagePack that is not negative.
func number(in io.Reader) (uint64, error) {
	first, err := next(in)
	if err != nil || first < 0x80 {
		return uint64(first), err
	}
	if first < 0xcc || first > 0xd3 {
		return 0, errStream
	}
	size := 1 << (first & 3) // 0xcc to 0xcf are unsigned, 0xd0 to 0xd3 signed
	var b [8]byte
	_, err = io.ReadFull(in, b[8-size:])
	return binary.BigEndian.Uint64(b[:]), err
}

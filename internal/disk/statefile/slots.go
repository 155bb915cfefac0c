package statefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/batuta-dev/batuta/election"
)

// slot is a half of a state file: it holds a save, followed by arbitrary bytes.
//
//	batuta-state 2 <number of the save> <bytes of a slot> <bytes of the state> <SHA-256>
//	{"id":"5","cluster":"payments","incarnation":…,"epoch":7,"leader":"5","members":[…]}
//
// The checksum, hexadecimal, covers the header before it and the state. Saves count from 1; odd
// saves are in the second slot. The size of a slot is a power of two, at least 4096 bytes, so that
// no block of a disk belongs to both, and each can be found if the first is damaged. A slot that
// was never written is zero.
type slot struct {
	number uint64
	size   int64 // 0: of a file without slots
}

// Version is the version of the layout in which a state is saved.
const Version = 2

const (
	stateMagic   = "batuta-state"
	plainVersion = "1" // the whole file is a save

	minSlot   = 4096
	maxSlot   = 2 << 20 // more than maxState and a header
	maxHeader = 256
)

func (s slot) offset() int64 { return int64(s.number%2) * s.size }

// next returns the slot of the save after s.
func (s slot) next() slot { return slot{s.number + 1, s.size} }

func (s slot) fits(body []byte) bool { return int64(maxHeader+len(body)) <= s.size }

// slotSize returns the size of the slots of a file that holds body.
func slotSize(body []byte) int64 {
	size := int64(minSlot)
	for !(slot{size: size}).fits(body) {
		size *= 2
	}
	return size
}

func (s slot) encode(body []byte) []byte {
	head := fmt.Sprintf("%d %d %d %d", Version, s.number, s.size, len(body))
	return fmt.Appendf(nil, "%s %s %s\n%s", stateMagic, head, checksum(head, body), body)
}

// decodeSlot reads the save at the beginning of a slot.
func decodeSlot(data []byte) (slot, []byte, error) {
	header, _, whole := bytes.Cut(data[:min(len(data), maxHeader)], []byte("\n"))
	f := strings.Split(string(header), " ")
	if !whole || len(f) != 6 || f[0] != stateMagic {
		return slot{}, nil, fmt.Errorf("%w: it does not begin as a state file", errDamaged)
	}
	number, errNumber := strconv.ParseUint(f[2], 10, 64)
	size, errSize := strconv.ParseInt(f[3], 10, 64)
	length, errLength := strconv.ParseUint(f[4], 10, 64)
	rest := data[len(header)+1:]
	if errors.Join(errNumber, errSize, errLength) != nil || length > uint64(len(rest)) {
		return slot{}, nil, fmt.Errorf("%w: its header is none", errDamaged)
	}
	body := rest[:length]
	if f[5] != checksum(strings.Join(f[1:5], " "), body) {
		return slot{}, nil, fmt.Errorf("%w: its checksum does not match", errDamaged)
	}
	return slot{number, size}, body, otherLayout(f[1], strconv.Itoa(Version))
}

func otherLayout(version, this string) error {
	if version == this {
		return nil
	}
	return fmt.Errorf("written by a version of batuta with another layout (%s, and this is %s): start that version, or a later one", version, this)
}

// checksum covers the header too, so that it detects every flipped bit of a save.
func checksum(head string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(head + "\n"))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// copies is the content of a state file.
type copies struct {
	file    os.FileInfo
	slot    slot // the last good save
	body    []byte
	state   election.State
	cluster string // of the member; "": written by a version without it
	damaged bool   // the second slot holds no save, and is not empty
}

func readCopies(name string) (copies, error) {
	info, err := os.Stat(name)
	if err != nil {
		return copies{}, err
	}
	if info.Size() > 2*maxSlot {
		return copies{}, fmt.Errorf("%s: %w: %d bytes, far more than a state takes", name, errDamaged, info.Size())
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return copies{}, err
	}
	c, err := decodeFile(data)
	if err != nil {
		return copies{}, fmt.Errorf("%s: %w", name, err)
	}
	c.file = info
	return c, nil
}

// decodeFile finds the last good save in a state file.
func decodeFile(data []byte) (copies, error) {
	if body, err := decodePlain(data); err == nil || !errors.Is(err, errDamaged) {
		if err != nil {
			return copies{}, err
		}
		state, cluster, err := decodeState(body)
		return copies{body: body, state: state, cluster: cluster}, err
	}
	var best copies
	var faults []error
	for at := int64(0); at == 0 || at < int64(len(data)) && at <= maxSlot; at = max(2*at, minSlot) {
		s, body, err := decodeSlot(data[at:])
		if err == nil && (at != 0 && s.size != at || s.offset() != at) {
			err = fmt.Errorf("%w: a slot stands where it does not belong", errDamaged)
		}
		var state election.State
		var cluster string
		if err == nil {
			state, cluster, err = decodeState(body)
		}
		if err != nil && !errors.Is(err, errDamaged) {
			return copies{}, err
		}
		if err == nil && s.number > best.slot.number {
			best = copies{slot: s, body: body, state: state, cluster: cluster}
		}
		faults = append(faults, err)
	}
	if best.slot.number == 0 {
		return copies{}, faults[0]
	}
	best.damaged = spoiled(data, best.slot)
	return best, nil
}

// spoiled reports whether the slot next to a good slot was written and holds no save.
func spoiled(data []byte, good slot) bool {
	other := slot{good.number + 1, good.size}
	begin, end := other.offset(), other.offset()+other.size
	if end > int64(len(data)) {
		return true
	}
	if _, _, err := decodeSlot(data[begin:end]); err == nil {
		return false
	}
	return len(bytes.Trim(data[begin:end], "\x00")) > 0
}

// decodePlain returns the state in a file of the layout before slots:
//
//	batuta-state 1 <SHA-256 of "1\n" and the lines below, hexadecimal>
//	{"id":"5",…}
func decodePlain(data []byte) ([]byte, error) {
	header, body, whole := bytes.Cut(data, []byte("\n"))
	f := strings.Split(string(header), " ")
	if !whole || len(f) != 3 || f[0] != stateMagic || f[2] != checksum(f[1], body) {
		return nil, errDamaged
	}
	return body, otherLayout(f[1], plainVersion)
}

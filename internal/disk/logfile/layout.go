package logfile

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// The file begins with a sector that holds a line:
//
//	batuta-log 1 <salt, hexadecimal> <bytes of the file when it was made> <SHA-256 of the line so far>
//
// Batches follow, a batch per append, each at the beginning of a sector and padded with zeros:
//
//	salt    8 bytes, the file's own: no record of any other file can be taken for a batch
//	number  8 bytes, from 1
//	count   4 bytes, of records
//	length  4 bytes, of what follows the checksum
//	sum     16 bytes, the beginning of the SHA-256 of all but itself
//	records each its length, 4 bytes, and its bytes
//
// Numbers are big-endian. The file is zero after the last batch. A batch is written when those
// before it are on disk. So a broken batch at the end is an append that was interrupted, and a
// broken batch before a whole batch is damage.
const (
	logMagic   = "batuta-log"
	logVersion = "1"

	sector      = 512
	batchHeader = 40
)

// salt distinguishes the batches of a file from other data on the disk.
type salt [8]byte

func newSalt() (s salt) {
	rand.Read(s[:]) // never fails
	return s
}

// encode returns a file that holds records, with room after them.
func encode(s salt, records [][]byte) ([]byte, position) {
	end := position{salt: s, number: 1, at: sector}
	var batch []byte
	if len(records) > 0 {
		batch = end.encode(records)
		end.number, end.at = 2, sector+int64(len(batch))
	}
	if end.at > MaxBytes {
		return nil, end
	}
	end.size = min(end.at+room, MaxBytes)
	content := make([]byte, end.size)
	head := fmt.Sprintf("%s %s %x %d", logMagic, logVersion, s[:], end.size)
	copy(content, head+" "+checksum(head)+"\n")
	copy(content[sector:], batch)
	return content, end
}

func checksum(head string) string {
	sum := sha256.Sum256([]byte(head))
	return hex.EncodeToString(sum[:])
}

// encode returns a batch for position p.
func (p position) encode(records [][]byte) []byte {
	length := 0
	for _, r := range records {
		length += 4 + len(r)
	}
	batch := make([]byte, batchHeader, padded(batchHeader+length))
	copy(batch, p.salt[:])
	binary.BigEndian.PutUint64(batch[8:], p.number)
	binary.BigEndian.PutUint32(batch[16:], uint32(len(records)))
	binary.BigEndian.PutUint32(batch[20:], uint32(length))
	for _, r := range records {
		batch = binary.BigEndian.AppendUint32(batch, uint32(len(r)))
		batch = append(batch, r...)
	}
	copy(batch[24:], sumOf(batch))
	return batch[:cap(batch)]
}

// padded rounds n up to whole sectors.
func padded(n int) int { return (n + sector - 1) / sector * sector }

func sumOf(batch []byte) []byte {
	h := sha256.New()
	h.Write(batch[:24])
	h.Write(batch[batchHeader:])
	return h.Sum(nil)[:16]
}

// decode returns the records in a file and the position of the next batch.
func decode(data []byte) ([][]byte, position, error) {
	p, err := decodeHead(data)
	if err != nil {
		return nil, p, err
	}
	var records [][]byte
	for {
		batch, number, ok := p.batch(data, p.at)
		if !ok || number != p.number {
			break
		}
		records = append(records, batch.records()...)
		p.number, p.at = p.number+1, p.at+int64(padded(len(batch)))
	}
	for at := p.at; at < int64(len(data)); at += sector {
		if _, number, ok := p.batch(data, at); ok {
			return nil, p, fmt.Errorf("%w at byte %d: append %d is broken, and append %d, at byte %d, is whole", errDamaged, p.at, p.number, number, at)
		}
	}
	return records, p, nil
}

func decodeHead(data []byte) (p position, err error) {
	line, _, whole := strings.Cut(string(data[:min(len(data), sector)]), "\n")
	f := strings.Split(line, " ")
	if !whole || len(f) != 5 || f[0] != logMagic || f[4] != checksum(strings.Join(f[:4], " ")) {
		return p, fmt.Errorf("%w: it does not begin as a log", errDamaged)
	}
	if f[1] != logVersion {
		return p, fmt.Errorf("written by a version of batuta with another layout (%s, and this is %s): start that version, or a later one", f[1], logVersion)
	}
	made, errMade := strconv.ParseInt(f[3], 10, 64)
	if n, err := hex.Decode(p.salt[:], []byte(f[2])); err != nil || n != len(p.salt) || errMade != nil || made < sector {
		return p, fmt.Errorf("%w: it does not begin as a log", errDamaged)
	}
	if int64(len(data)) < made {
		return p, fmt.Errorf("%w: it has been cut short: %d bytes are left, and it was made with %d", errDamaged, len(data), made)
	}
	p.number, p.at, p.size = 1, sector, int64(len(data))
	return p, nil
}

// batch is a whole batch, without its padding.
type batch []byte

// batch reads the batch that begins at at; false if there is none.
func (p position) batch(data []byte, at int64) (b batch, number uint64, ok bool) {
	b = data[at:]
	if len(b) < batchHeader || !bytes.HasPrefix(b, p.salt[:]) {
		return nil, 0, false
	}
	length := int64(binary.BigEndian.Uint32(b[20:]))
	if length > int64(len(b)-batchHeader) {
		return nil, 0, false
	}
	b = b[:batchHeader+length]
	if !bytes.Equal(b[24:batchHeader], sumOf(b)) || !b.sound() {
		return nil, 0, false
	}
	return b, binary.BigEndian.Uint64(b[8:]), true
}

// sound reports whether the records of a batch fill it.
func (b batch) sound() bool {
	rest := b[batchHeader:]
	for range binary.BigEndian.Uint32(b[16:]) {
		if len(rest) < 4 {
			return false
		}
		n := int64(binary.BigEndian.Uint32(rest))
		if rest = rest[4:]; n > int64(len(rest)) {
			return false
		}
		rest = rest[n:]
	}
	return len(rest) == 0
}

func (b batch) records() (all [][]byte) {
	for rest := b[batchHeader:]; len(rest) > 0; {
		n := binary.BigEndian.Uint32(rest)
		all = append(all, bytes.Clone(rest[4:4+n]))
		rest = rest[4+n:]
	}
	return all
}

// used returns the length of b without its trailing zeros.
func used(b []byte) int { return len(bytes.TrimRight(b, "\x00")) }

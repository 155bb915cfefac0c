package resident

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Shed releases what a process needed to start: garbage, and pages of its program, which the kernel
// maps again from its page cache when they are used.
func Shed() error {
	debug.FreeOSMemory()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer f.Close()
	pages, err := clean(f)
	for _, m := range pages {
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED); errno != 0 {
			err = errors.Join(err, fmt.Errorf("give back the memory of %s: %w", m.file, errno))
		}
	}
	return err
}

// mapping is a part of a file that the process has mapped.
type mapping struct {
	start, end uintptr
	file       string
}

// clean returns the mappings that lose nothing when their pages are dropped: of a file, read-only,
// and with no page that differs from the file.
func clean(smaps io.Reader) (all []mapping, err error) {
	var m mapping // that the lines describe; no file: it is skipped
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) > 0 && strings.HasSuffix(words[0], ":"):
			if words[0] == "Anonymous:" && m.file != "" && len(words) == 3 && words[1] == "0" {
				all = append(all, m)
			}
		case len(words) == 6 && strings.HasPrefix(words[5], "/") && words[1][1] == '-' && words[1][3] == 'p':
			from, to, _ := strings.Cut(words[0], "-")
			start, bad := strconv.ParseUint(from, 16, 64)
			end, worse := strconv.ParseUint(to, 16, 64)
			if err := errors.Join(bad, worse); err != nil {
				return nil, fmt.Errorf("/proc/self/smaps: %w", err)
			}
			m = mapping{uintptr(start), uintptr(end), words[5]}
		default:
			m = mapping{}
		}
	}
	return all, lines.Err()
}

package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

// disk is a file on a disk that is full for the next calls, and takes a part of the first of them.
type disk struct {
	strings.Builder
	full int
	err  error
}

func (d *disk) Write(p []byte) (int, error) {
	if d.full--; d.full >= 0 {
		n, _ := d.Builder.Write(p[:len(p)/2])
		return n, d.err
	}
	return d.Builder.Write(p)
}

// Events go on after a full disk, in whole lines, and their reader receives that some are left out.
func TestPrintGoesOnWhenTheDiskHasRoom(t *testing.T) {
	behind := errors.New("behind")
	for _, tt := range []struct {
		what  string
		full  int
		err   error
		ended bool // before the disk has room
		want  string
	}{
		{"a disk with room", 0, nil, false, "12 13 14 "},
		{"a full disk", 3, syscall.ENOSPC, false, "1 behind 22 23 24 "},
		{"no reader", 1, syscall.EPIPE, false, "1"},
		{"the end of the member on a full disk", 1 << 30, syscall.ENOSPC, true, "1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, ends := context.WithCancel(t.Context())
			defer ends()
			if tt.ended {
				ends()
			}
			watches := 0
			watch := func(context.Context) iter.Seq2[int, error] {
				watches++
				return func(yield func(int, error) bool) {
					for n := 2; n <= 4 && yield(10*watches+n, nil); n++ {
					}
				}
			}
			d := &disk{full: tt.full, err: tt.err}
			out := Lines(d)
			Print(ctx, slog.New(slog.DiscardHandler), behind, watch, func(n int, err error) error {
				var failed error
				if err != nil {
					_, failed = fmt.Fprintln(out, err)
				} else {
					_, failed = fmt.Fprintln(out, n)
				}
				return failed
			})
			if got := strings.ReplaceAll(d.String(), "\n", " "); got != tt.want {
				t.Errorf("%s: %q", tt.what, got)
			}
		})
	}
}

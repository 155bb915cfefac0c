package run

import (
	"bufio"
	"os"
	"sync"
	"time"
)

// output has each line that a command writes begin with its name. A nil output is none.
type output struct {
	theirs []*os.File // the command's ends, until it has begun
	ours   []*os.File
	copied sync.WaitGroup
}

// maxLine is how much of a line is kept until its end comes; a longer one is parted.
const maxLine = 64 << 10

// lastOutput is how long the last of what a command has written may take to be read.
const lastOutput = time.Second

// newOutput makes pipes, and puts the command's ends in place of standard output and error.
func newOutput(name string, files *[]uintptr) (*output, error) {
	o := &output{}
	for _, to := range []*os.File{os.Stdout, os.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			o.begun()
			o.finish()
			return nil, err
		}
		(*files)[len(o.theirs)+1] = w.Fd()
		o.theirs, o.ours = append(o.theirs, w), append(o.ours, r)
		o.copied.Go(func() { copyLines(to, r, name+": ") })
	}
	return o, nil
}

// begun gives up the ends that are the command's now.
func (o *output) begun() {
	if o != nil {
		for _, f := range o.theirs {
			f.Close()
		}
	}
}

// finish waits for the last lines once nobody is left to write, though not for ever.
func (o *output) finish() {
	if o == nil {
		return
	}
	for _, f := range o.ours {
		f.SetReadDeadline(time.Now().Add(lastOutput))
	}
	done := make(chan struct{})
	go func() { o.copied.Wait(); close(done) }()
	late := time.NewTimer(lastOutput)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C: // nobody reads what it writes
	}
}

// copyLines copies lines, each in one write. When it cannot write, the command's next
// attempt to do so fails as if it had written itself.
func copyLines(to, from *os.File, prefix string) {
	defer from.Close()
	in := bufio.NewReaderSize(from, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			out := append(append(make([]byte, 0, len(prefix)+len(line)+1), prefix...), line...)
			if line[len(line)-1] != '\n' {
				out = append(out, '\n')
			}
			if _, err := to.Write(out); err != nil {
				return
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

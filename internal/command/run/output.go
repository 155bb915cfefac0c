package run

import (
	"bufio"
	"os"
	"sync"
	"time"
)

// output prefixes each line of a command with its name. A nil output does nothing.
type output struct {
	theirs []*os.File // the command's ends, until it has begun
	ours   []*os.File
	copied sync.WaitGroup
}

// maxLine is the length, in bytes, at which a line without an end is split.
const maxLine = 64 << 10

// lastOutput is how long it may take to read the last output of a command.
const lastOutput = time.Second

// newOutput makes pipes, and replaces standard output and error by the command's ends.
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

// begun closes this process's copies of the command's ends.
func (o *output) begun() {
	if o != nil {
		for _, f := range o.theirs {
			f.Close()
		}
	}
}

// finish waits for the last lines once there is no writer left, for a limited time.
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
	case <-late.C: // the output is not being read
	}
}

// copyLines copies lines, each in a single write. If a write fails, the command's next write fails
// as if it had written directly.
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

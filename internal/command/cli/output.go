package cli

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/internal/logqueue"
	"github.com/spf13/pflag"
)

// Output is what a process prints: its events on standard output, and its log on standard error,
// which need not be read.
type Output struct {
	Events        string // json, text or off
	level, format string

	least slog.LevelVar
	queue *logqueue.Queue
	out   slog.Handler
}

// Register adds the flags; events is the default format of events.
func (o *Output) Register(fs *pflag.FlagSet, events string) {
	fs.StringVar(&o.Events, "events", events, "print events on standard output in `MODE` json, text or off")
	fs.StringVar(&o.level, "log-level", "info", "log from `LEVEL` on: debug, info, warn or error")
	fs.StringVar(&o.format, "log-format", "text", "log on standard error in `MODE` text or json")
}

// Check returns what is wrong with the flags.
func (o *Output) Check() error {
	if !slices.Contains([]string{"json", "text", "off"}, o.Events) {
		return Usagef("--events %q: use json, text or off", o.Events)
	}
	if !slices.Contains([]string{"json", "text"}, o.format) {
		return Usagef("--log-format %q: use text or json", o.format)
	}
	_, err := Level(o.level)
	return err
}

// Level reads the value of --log-level.
func Level(text string) (level slog.Level, err error) {
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return level, Usagef("--log-level %q: use debug, info, warn or error", text)
	}
	return level, nil
}

// Direct returns a log that writes to w at once: that of a process which may be killed at any moment.
func (o *Output) Direct(w io.Writer) (*slog.Logger, error) {
	level, err := Level(o.level)
	if err != nil {
		return nil, err
	}
	o.least.Set(level)
	options := &slog.HandlerOptions{Level: &o.least, ReplaceAttr: flagsIn}
	if o.out = slog.NewTextHandler(w, options); o.format == "json" {
		o.out = slog.NewJSONHandler(w, options)
	}
	return slog.New(o.out), nil
}

// Open begins the log, which writes to w without blocking its callers.
func (o *Output) Open(w io.Writer) (*slog.Logger, error) {
	if _, err := o.Direct(w); err != nil {
		return nil, err
	}
	o.queue = logqueue.New()
	return slog.New(o.queue.Handler(o.out)), nil
}

// Args are the flags that give another process the same log.
func (o *Output) Args() []string { return []string{"--log-level", o.level, "--log-format", o.format} }

// SetLevel changes the level of the open log.
func (o *Output) SetLevel(level slog.Level) { o.least.Set(level) }

// WithoutEvents returns the log for a package that also logs its events, at level info: they are
// dropped if they are printed already.
func (o *Output) WithoutEvents() *slog.Logger {
	if o.Events == "off" {
		return slog.New(o.queue.Handler(o.out))
	}
	return slog.New(o.queue.Handler(withoutInfo{o.out}))
}

// LastWords is how long a process waits at its end for its log to be read.
const LastWords = time.Second

// Close ends the log, once it is read or [LastWords] have passed.
func (o *Output) Close() { o.queue.Close(LastWords) }

// withoutInfo drops records of level info.
type withoutInfo struct{ slog.Handler }

func (h withoutInfo) Enabled(ctx context.Context, l slog.Level) bool {
	return l != slog.LevelInfo && h.Handler.Enabled(ctx, l)
}

func (h withoutInfo) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutInfo{h.Handler.WithAttrs(attrs)}
}

func (h withoutInfo) WithGroup(name string) slog.Handler {
	return withoutInfo{h.Handler.WithGroup(name)}
}

// Colours of the cells of tables, by the cell's whole text.
var paints = map[string]string{
	"leader": "32", "leader,asked": "32",
	"down": "31", "unreachable": "31", "FAULT": "31", "SILENT": "31", "ELSEWHERE": "31", "DISAGREES": "31",
	"REFUSED": "31", "UNRESOLVED": "31", "DISK": "31",
	"PAUSED": "33", "unhealthy": "33", "resigned": "33", "draining": "33", "unsaved": "33", "joining": "33",
}

// Paint returns a writer that colours the cells of tables of a [text/tabwriter]; w itself if it is no
// terminal, or NO_COLOR is set or TERM is dumb.
func Paint(w io.Writer, terminal bool, lookup func(string) (string, bool)) io.Writer {
	plain, _ := lookup("NO_COLOR")
	kind, _ := lookup("TERM")
	if !terminal || plain != "" || kind == "dumb" {
		return w
	}
	return painter{w}
}

type painter struct{ io.Writer }

func (p painter) Write(text []byte) (int, error) {
	colour := paints[string(text)]
	if colour == "" {
		return p.Writer.Write(text)
	}
	_, err := p.Writer.Write(slices.Concat([]byte("\x1b["+colour+"m"), text, []byte("\x1b[0m")))
	return len(text), err
}

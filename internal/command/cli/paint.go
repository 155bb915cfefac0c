package cli

import (
	"io"
	"slices"
)

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

package scenario

import (
	"strings"
)

// entry is a line of the language's help.
type entry struct{ usage, does, normal string }

func settingEntries() (all []entry) {
	for i := range settings {
		f := &settings[i]
		all = append(all, entry{strings.TrimSpace(f.word + " " + f.form), f.does, f.normal})
	}
	return all
}

// stepEntries returns the steps that demand something, or those that do something.
func stepEntries(demands bool) (all []entry) {
	for i := range steps {
		if f := &steps[i]; f.demand == demands && f.verb != Expect {
			all = append(all, entry{usage: f.usage(), does: f.does})
		}
	}
	if demands {
		for i := range expectations {
			f := &expectations[i]
			all = append(all, entry{usage: f.usage(), does: f.does})
		}
	}
	return all
}

// Help describes every line that a script may hold, in lines of 80 columns.
func Help() string {
	var b strings.Builder
	part := func(title string, entries []entry) {
		b.WriteString(title + "\n")
		for _, e := range entries {
			if e.normal != "" {
				e.does += "; default: " + e.normal
			}
			e.writeHelp(&b)
		}
	}
	part("The cluster, before the first step:", settingEntries())
	part("\nWhat happens to it:", stepEntries(false))
	part("\nWhat must come of it:", stepEntries(true))
	return b.String()
}

// width is that of a line of help, indent the column of what the line does.
const width, indent = 80, 30

func (e entry) writeHelp(b *strings.Builder) {
	line := "  " + e.usage
	pad := func() { line += strings.Repeat(" ", max(indent-1-len([]rune(line)), 0)) }
	pad()
	for word := range strings.FieldsSeq(strings.ReplaceAll(e.does, "`", "")) {
		if len([]rune(line))+1+len([]rune(word)) > width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = ""
			pad()
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

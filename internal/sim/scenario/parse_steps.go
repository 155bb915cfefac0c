package scenario

import (
	"slices"
	"strings"
)

func (p *parser) stepLine(first word) {
	p.acting = true
	for first.text == string(At) {
		s := Step{Do: At, Line: p.line, Col: first.col}
		formOf[At].read(p, &s)
		p.add(s)
		if len(p.words) == 0 || p.stop {
			return
		}
		first, _ = p.next("a step")
	}
	switch Verb(first.text) {
	case repeat:
		p.loops = append(p.loops, loop{len(p.s.Steps), int(p.number("how often", 1, 10_000)), p.line})
		return
	case "end":
		p.unroll(first)
		return
	}
	f, ok := formOf[Verb(first.text)]
	if !ok {
		if near := nearest(first.text); near != "" {
			p.fault(first.col, "expected a step or a setting, such as %q, found %q", near, first.text)
			return
		}
		p.fault(first.col, "expected a step (%s) or a setting (%s), found %q", verbList(), settingList(), first.text)
		return
	}
	s := Step{Do: f.verb, Line: p.line, Col: first.col}
	f.read(p, &s)
	p.add(s)
}

// read parses what follows the verb.
func (f *form) read(p *parser, s *Step) {
	for _, o := range f.operands {
		if o.read != nil {
			o.read(p, s)
		}
	}
}

func (p *parser) add(s Step) {
	if len(p.s.Steps) >= maxSteps {
		p.fault(1, "expected at most %d steps", maxSteps)
		return
	}
	p.s.Steps = append(p.s.Steps, s)
}

// unroll ends a loop and repeats its steps.
func (p *parser) unroll(w word) {
	if len(p.loops) == 0 {
		p.fault(w.col, "expected a \"repeat\" before this \"end\", found none")
		return
	}
	l := p.loops[len(p.loops)-1]
	p.loops = p.loops[:len(p.loops)-1]
	body := slices.Clone(p.s.Steps[l.from:])
	if len(p.s.Steps)+len(body)*(l.times-1) > maxSteps {
		p.fault(1, "expected at most %d steps", maxSteps)
		return
	}
	for range l.times - 1 {
		for _, s := range body {
			p.add(s)
		}
	}
}

// nearest returns the step or setting that shares the most first letters with a misspelled one, at least
// three; "" if several do.
func nearest(wrong string) (near string) {
	most := 2
	for _, word := range slices.Concat(verbs(), settingWords()) {
		shared := 0
		for shared < min(len(word), len(wrong)) && word[shared] == wrong[shared] {
			shared++
		}
		if shared > most {
			most, near = shared, word
		} else if shared == most {
			near = ""
		}
	}
	return near
}

func verbList() string { return strings.Join(verbs(), ", ") }

func verbs() (words []string) {
	for i := range steps {
		words = append(words, string(steps[i].verb))
	}
	slices.Sort(words)
	return words
}

func settingList() string { return strings.Join(settingWords(), ", ") }

func settingWords() (words []string) {
	for i := range settings {
		words = append(words, settings[i].word)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

func (p *parser) maybe(text string) string {
	if len(p.words) > 0 && p.words[0].text == text {
		p.words = p.words[1:]
		return text
	}
	return ""
}

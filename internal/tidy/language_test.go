package tidy

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// pageBars are what a page may reach. language.txt lists a page that is above a bar today,
// with its figure, which may fall and not rise.
var pageBars = map[string]float64{
	"words":    0,     // of the list: words that the glossary replaces, who, tell, say, hear
	"over25":   2,     // sentences of more than 25 words
	"longest":  35,    // words of the longest sentence
	"columns":  0,     // lines of text above 100 columns, outside of tables
	"cells":    0,     // cells of a table with more than 25 words
	"headings": 0,     // headings above 60 characters, or with a word of the list
	"length":   3_000, // words of the page
}

// avoided are the words of the list, in text, not in code.
var avoided = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	"who", "whom", "whose", "whoever", "nobody", "somebody", "everybody", // a member is a thing: no member
	"tells?", "told", "telling", "says?", "said", "saying", "hears?", "heard", "hearing", // publish, report, receive
	"the lead", "leads no more", "stands? for election", "makes? way", "aside", // leadership, candidate, yield
	"contests?", "heirs?", "vouch(es|ed|ing)?", "beats?", "trips?", // election, transfer target, confirm, heartbeat, delay
	"liars?", "strangers?", "lets? in", "strikes? off", "born", // malicious member, unauthenticated client, admit, remove, create
	"anew", "beside", "parted", "mend(s|ed|ing)?", "alone", "wants", "bears?", "borne", // again, next to, split, fix, only, need, tolerate
	"in calm", "at rest", "for ever", "but for", "one a line", "the house", "the very", "by its own word", "upon which", "kept what was",
}, "|") + `)\b`)

var (
	permitted   = regexp.MustCompile(`(?i)round trips?|never the epoch alone`)
	hidden      = regexp.MustCompile("`[^`]*`")
	target      = regexp.MustCompile(`\]\([^)]*\)`)
	tag         = regexp.MustCompile(`<[^>]*>`)
	generated   = regexp.MustCompile(`(?s)<!-- ([a-z ]+) -->.*?<!-- end of [a-z ]+ -->`)
	sentenceEnd = regexp.MustCompile(`[.?!:][*_")]*\s+[*_"(\[]*[A-Z0-9]`)
)

// TestLanguage compares the figures of each page with the bars. To see all figures:
//
//	go test ./internal/tidy -run TestLanguage -v
func TestLanguage(t *testing.T) {
	const file = "internal/tidy/language.txt"
	exceptions, above := readExceptions(t, file), map[figure]float64{}
	for _, page := range languagePages(t) {
		for bar, found := range language(t, page) {
			f, value := figure{bar, page}, float64(len(found))
			if bar == "longest" || bar == "length" {
				value = float64(len(strings.Fields(strings.Join(found, " "))))
			}
			if value > pageBars[bar] {
				above[f] = value
			}
			listed, isListed := exceptions[f]
			if !isListed {
				listed = pageBars[bar]
			}
			if value > max(pageBars[bar], listed) {
				t.Errorf("%s of %s: %s, and the bar is %s: reword it; the last are %q", bar, page, number(value), number(max(pageBars[bar], listed)), last(found))
			}
		}
	}
	if *update {
		writeExceptions(t, file, "TestLanguage", above, exceptions)
	}
	for _, f := range slices.SortedFunc(maps.Keys(above), byBar) {
		t.Logf("above the bar: %-8s %-28s %s", f.bar, f.of, number(above[f]))
	}
}

func TestLanguageIsMeasured(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "# Who leads\n\nOne `who said` [two](say.md) three. " + strings.Repeat("A ", 26) + "end.\n" +
		"*Checked:* " + strings.Repeat("`name`, ", 9) + "`name`.\n\n| a | " + strings.Repeat("b ", 26) + "|\n\n" +
		"```\nwho said that\n```\n\nA round trip is told once.\n" + strings.Repeat("x", 101) + "\n"
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got := language(t, page)
	for bar, want := range map[string]int{"words": 2, "over25": 1, "columns": 1, "cells": 1, "headings": 1} {
		if len(got[bar]) != want {
			t.Errorf("%s: %q, want %d", bar, got[bar], want)
		}
	}
	if words := len(strings.Fields(got["longest"][0])); words != 27 {
		t.Errorf("the longest sentence has %d words: %q", words, got["longest"])
	}
}

// TestLanguageOfTheLab has the English texts of the lab, its tours and the dashboard use none of the avoided
// words. A question may use the pronoun for persons.
func TestLanguageOfTheLab(t *testing.T) {
	tours, err := filepath.Glob("internal/web/lab/tours/*.txt")
	if err != nil || len(tours) == 0 {
		t.Fatal("no tours", err)
	}
	question := regexp.MustCompile(`\b[Ww]ho(se)? [^.?]*\?|\{\w+\}`)
	for file, english := range map[string]*regexp.Regexp{
		"internal/web/lab/texts.js":       regexp.MustCompile(`(?s)\n  en: \{.*?\n  \},`),
		"internal/web/dashboard/texts.js": regexp.MustCompile(`(?s)\n  en: \{.*?\n  \},`),
		"internal/web/lab/supertours.js":  regexp.MustCompile(`\[\d+, '[^']*'`),
		"tours":                           regexp.MustCompile(`(?m)^en: .*$`),
	} {
		files := []string{file}
		if file == "tours" {
			files = tours
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts := english.FindAllString(string(text), -1)
			if len(texts) == 0 {
				t.Errorf("%s has no English text", file)
			}
			for _, text := range texts {
				for _, found := range avoided.FindAllString(question.ReplaceAllString(text, ""), -1) {
					t.Errorf("%s has %q, which the glossary replaces", file, found)
				}
			}
		}
	}
}

// languagePages lists the English pages, without reports, which are not edited once they are dated.
func languagePages(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
	for _, pattern := range []string{"docs/*.md", "docs/adr/*.md", "examples/README.md", "examples/*/README.md", "examples/algorithm/*/README.md",
		"clients/*/README.md", "packaging/helm/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// language gives what a page has of each bar.
func language(t *testing.T, page string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{"longest": {""}, "length": {string(generated.ReplaceAll(text, nil))}}
	entries := page == "CHANGELOG.md" // each is one line, and a semicolon ends a sentence of it
	var paragraph []string
	end := func() {
		text := strings.Join(paragraph, " ")
		if entries {
			text = strings.ReplaceAll(text, "; ", ". X ")
		}
		for _, s := range sentences(text) {
			if words := len(strings.Fields(s)); words > 25 {
				found["over25"] = append(found["over25"], s)
				if words > len(strings.Fields(found["longest"][0])) {
					found["longest"] = []string{s}
				}
			}
		}
		paragraph = nil
	}
	for _, line := range withoutCode(found["length"][0]) {
		plain := tag.ReplaceAllString(target.ReplaceAllString(hidden.ReplaceAllString(line, "X"), "]"), "")
		found["words"] = append(found["words"], avoided.FindAllString(permitted.ReplaceAllString(plain, ""), -1)...)
		title, isHeading := heading(line)
		isTable := strings.HasPrefix(line, "|")
		switch {
		case isHeading:
			end()
			if utf8.RuneCountInString(title) > 60 || avoided.MatchString(plain) {
				found["headings"] = append(found["headings"], title)
			}
		case isTable:
			end()
			for cell := range strings.SplitSeq(plain, "|") {
				if len(strings.Fields(cell)) > 25 {
					found["cells"] = append(found["cells"], cell)
				}
			}
		default:
			item := strings.HasPrefix(strings.TrimSpace(line), "- ")
			if item || strings.TrimSpace(line) == "" {
				end()
			}
			paragraph = append(paragraph, strings.TrimPrefix(strings.TrimSpace(plain), "- "))
			if utf8.RuneCountInString(line) > 100 && !strings.HasPrefix(line, "![") && !entries {
				found["columns"] = append(found["columns"], line)
			}
		}
	}
	end()
	if entries {
		delete(found, "length") // it grows with each release
	}
	return found
}

// sentences splits a paragraph. What is listed behind "*Checked:*" is no sentence.
func sentences(paragraph string) []string {
	paragraph, _, _ = strings.Cut(paragraph, "*Checked:*")
	var list []string
	for {
		at := sentenceEnd.FindStringIndex(paragraph)
		if at == nil {
			return append(list, paragraph)
		}
		list = append(list, paragraph[:at[0]+1])
		paragraph = paragraph[at[0]+1:]
	}
}

func last(list []string) []string { return list[max(0, len(list)-5):] }

// The glossary defines each word once, in at most 25 words, in both languages, and every page
// links to it.
func TestGlossary(t *testing.T) {
	defines(t, "docs/glossary.md")
	defines(t, "docs/es/glosario.md")
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md", "README.es.md") {
		glossary := "glossary.md"
		if page == "README.es.md" {
			glossary = "docs/es/glosario.md"
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if page != "docs/glossary.md" && !strings.Contains(string(text), glossary) {
			t.Errorf("%s does not link to %s where it first uses a term of it", page, glossary)
		}
	}
}

// defines checks the definitions of one glossary.
func defines(t *testing.T, page string) {
	t.Helper()
	defined := map[string]bool{}
	joined := strings.ReplaceAll(strings.Join(prose(t, page), "\n"), "\n  ", " ")
	for line := range strings.Lines(joined) {
		entry, ok := strings.CutPrefix(line, "- ")
		if !ok {
			continue
		}
		term, definition, ok := strings.Cut(tag.ReplaceAllString(entry, ""), "**: ")
		if words := len(strings.Fields(definition)); !ok || words == 0 || words > 25 {
			t.Errorf("%s: %q: write **term**: definition, of at most 25 words", page, term)
		}
		if defined[term] {
			t.Errorf("%s: %s** is defined twice", page, term)
		}
		defined[term] = true
	}
	if len(defined) < 60 {
		t.Errorf("%s defines only %d terms", page, len(defined))
	}
}

// The index of decisions has each of them.
func TestEveryDecisionIsInTheIndex(t *testing.T) {
	index, err := os.ReadFile("docs/adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("docs/adr/[0-9]*.md")
	if err != nil || len(decisions) == 0 {
		t.Fatal("there are no decisions", err)
	}
	for _, d := range decisions {
		if !strings.Contains(string(index), "]("+filepath.Base(d)+")") {
			t.Errorf("docs/adr/README.md does not link to %s", filepath.Base(d))
		}
	}
}

// Merges of two branches keep both versions of a changed line.
func TestTheChangelogHasEachEntryOnce(t *testing.T) {
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	began := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if begins := line[:min(60, len(line))]; strings.HasPrefix(line, "- ") {
			if began[begins] {
				t.Errorf("CHANGELOG.md has two entries that begin with %q", begins)
			}
			began[begins] = true
		}
	}
}

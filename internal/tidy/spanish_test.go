package tidy

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// spanish has each Spanish page and the English page that it translates.
var spanish = map[string]string{
	"README.es.md":              "README.md",
	"docs/es/algoritmos.md":     "docs/algorithms.md",
	"docs/es/clase.md":          "docs/lecture.md",
	"docs/es/desplegar.md":      "docs/three-machines.md",
	"docs/es/ejecutar.md":       "docs/run.md",
	"docs/es/garantias.md":      "docs/guarantees.md",
	"docs/es/glosario.md":       "docs/glossary.md",
	"docs/es/laboratorio.md":    "docs/lab.md",
	"docs/es/primeros-pasos.md": "docs/tutorial-command.md",
}

// TestSpanishPagesFollow compares what both languages have alike: the headings by level, the
// code without its comments, the links, and every figure with its unit.
func TestSpanishPagesFollow(t *testing.T) {
	for translation, original := range spanish {
		follows(t, translation, original)
	}
}

func follows(t *testing.T, translation, original string) {
	t.Helper()
	got, want := skeletonOf(t, translation), skeletonOf(t, original)
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("%s has %q where %s has %q", translation, got[i], original, want[i])
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s has %d headings, lines of code, links and figures, %s has %d", translation, len(got), original, len(want))
	}
}

// TestSpanishPagesAreListed finds the pages of docs/es that the table leaves out.
func TestSpanishPagesAreListed(t *testing.T) {
	for _, page := range markdown(t) {
		if path.Dir(page) == "docs/es" && spanish[page] == "" {
			t.Errorf("%s: name the English page that it translates in internal/tidy/spanish_test.go", page)
		}
	}
}

// TestSkeleton has pages that differ, and one that does not.
func TestSkeleton(t *testing.T) {
	english := "# Lab\n\nIt takes 1.5\nms ([why](glossary.md#t)) by [hooks](run.md#as-a-service).\n\n```sh\nrun --n 3  # three\n```\n"
	for page, same := range map[string]bool{
		"# Laboratorio\n\nTarda 1,5 ms ([motivo](es/glosario.md#t)) con [*hooks*](es/ejecutar.md#como-servicio).\n\n```sh\nrun --n 3  # tres\n```\n": true,
		strings.Replace(english, "1.5\nms", "1.5 s", 1):             false,
		strings.Replace(english, "1.5", "1.6", 1):                   false,
		strings.Replace(english, "# Lab", "## Lab", 1):              false,
		strings.Replace(english, "glossary.md", "guarantees.md", 1): false,
		strings.Replace(english, "glossary.md#t", "glossary.md", 1): false,
		strings.Replace(english, "as-a-service", "hooks", 1):        false,
		strings.Replace(english, "--n 3", "--n 4", 1):               false,
		english + "\nAnother figure: 7.\n":                          false,
	} {
		got, want := strings.Join(skeleton("docs/x.md", page), "\n"), strings.Join(skeleton("docs/x.md", english), "\n")
		if (got == want) != same {
			t.Errorf("%q has the skeleton %q; that of the original is %q", page, got, want)
		}
	}
}

// elsewhere has what the glossary has another word for: that word, and the pattern of the ones to avoid.
var elsewhere = map[string]string{
	"token":        `fichas?`,
	"lease":        `arriendos?`,
	"quorum":       `quórums?`,
	"liderazgo":    `(?:el|del|al) mando`,
	"traspasar":    `ceder`,
	"plaza":        `puestos? en total|puesto \{n\}`,
	"no sano":      `enfermos?|enferm[ae]`,
	"vaciar":       `apart(?:ar|arse|ado|ada)`,
	"eliminado":    `quit(?:ar|ado|ada|arlo)|quita a`,
	"reemplazado":  `relev(?:a|an|ado|ada)`,
	"división":     `partir(?:se|á|la) |partir el|est(?:á|aba) partida`,
	"elección":     `contiendas?`,
	"confirman":    `acuses?`,
	"llegó":        `oír|oye|oyen|oído|oírlo`,
	"encing token": `barrera`,
}

// TestSpanishVocabulary has the pages of the browser, their tours and the Spanish documentation use the
// words of the glossary.
func TestSpanishVocabulary(t *testing.T) {
	glossary, err := os.ReadFile("docs/es/glosario.md")
	if err != nil {
		t.Fatal(err)
	}
	avoid := map[string]*regexp.Regexp{}
	for word, others := range elsewhere {
		if !strings.Contains(string(glossary), word) {
			t.Errorf("the glossary has no %q: why avoid %s?", word, others)
		}
		avoid[word] = regexp.MustCompile(`(?i)(?:^|[^\pL])(` + others + `)(?:[^\pL]|$)`)
	}
	texts := slices.Collect(maps.Keys(spanish))
	for _, pattern := range []string{"internal/web/lab/tours/*.txt", "internal/web/*/*.js", "internal/web/*/index.html"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal("no file is ", pattern, err)
		}
		texts = append(texts, found...)
	}
	for _, file := range texts {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for word, pattern := range avoid {
			for _, found := range pattern.FindAllStringSubmatch(string(text), -1) {
				t.Errorf("%s has %q; the glossary's word is %q", file, found[1], word)
			}
		}
	}
}

// The dashboard's witness is a member that votes, never what an agent asks for.
func TestSpanishTokensAreNoWitnesses(t *testing.T) {
	texts, err := os.ReadFile("internal/web/dashboard/texts.js")
	if err != nil {
		t.Fatal(err)
	}
	if at := regexp.MustCompile(`(?:token|onlyReads|tokenLabel): '[^']*[Tt]estigo`).Find(texts); at != nil {
		t.Errorf("%s: a token is no witness", at)
	}
}

var (
	comment = regexp.MustCompile(`\s*(#|//) .*`)
	figures = regexp.MustCompile(`\]\([^)]*\)|<a id="[^"]*">|\d+(?:[.,]\d+)*(?: (?:%|(?:ms|s|MiB)\b))?`)
)

// skeletonOf is the skeleton of a page of the repository.
func skeletonOf(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return skeleton(page, string(text))
}

// skeleton lists a page's headings by level, its lines of code without their comments, its
// links by target, its anchors and its figures.
func skeleton(page, text string) []string {
	var parts, paragraph []string
	end := func() {
		parts = append(parts, numbers(page, strings.Join(paragraph, " "))...)
		paragraph = nil
	}
	code := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		level, _, heading := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			code = !code
			parts = append(parts, line)
		case code:
			parts = append(parts, comment.ReplaceAllString(line, ""))
		case heading && strings.Trim(level, "#") == "":
			end()
			parts = append(parts, level)
		default:
			paragraph = append(paragraph, line)
		}
	}
	end()
	return parts
}

// numbers lists the links, the anchors and the figures of a text. Figures lose their separators: English
// and Spanish exchange the comma and the point.
func numbers(page, text string) []string {
	var found []string
	for _, f := range figures.FindAllString(text, -1) {
		if target, ok := strings.CutPrefix(f, "]("); ok {
			f = inEnglish(page, strings.TrimSuffix(target, ")"))
		} else {
			f = strings.NewReplacer(",", "", ".", "").Replace(f)
		}
		found = append(found, f)
	}
	return found
}

// inEnglish is the target of a link from the root of the repository, for a Spanish page and its
// headings the English ones.
func inEnglish(page, link string) string {
	if strings.Contains(link, "://") {
		return link
	}
	file, fragment, _ := strings.Cut(link, "#")
	if file == "" {
		file = page
	} else {
		file = path.Join(path.Dir(page), file)
	}
	if original, ok := spanish[file]; ok {
		english := anchors(original)
		if i := slices.Index(anchors(file), fragment); 0 <= i && i < len(english) {
			fragment = english[i]
		}
		file = original
	}
	return file + "#" + fragment
}

// anchors lists those of the headings of a page; TestLinksResolve reports a page that is missing.
func anchors(page string) []string {
	text, _ := os.ReadFile(page)
	var list []string
	used := map[string]int{}
	for _, line := range withoutCode(string(text)) {
		if title, ok := heading(line); ok {
			list = append(list, anchor(title, used))
		}
	}
	return list
}

package tidy

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	linked   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	quoted   = regexp.MustCompile("`[^`\n]*`")
	anchored = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)

	// What an anchor leaves of a heading.
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	unanchored = regexp.MustCompile(`[^\p{L}\p{N}_-]`)
)

// Every relative link of a page leads to a file, and its anchor to a heading there.
func TestLinksResolve(t *testing.T) {
	checked, fragments := 0, map[string]map[string]bool{} // by page
	for _, page := range markdown(t) {
		for n, line := range prose(t, page) {
			for _, m := range linked.FindAllStringSubmatch(quoted.ReplaceAllString(line, ""), -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				checked++
				if err := resolve(t, fragments, page, m[1]); err != nil {
					t.Errorf("%s:%d: %v", page, n+1, err)
				}
			}
		}
	}
	if checked < 150 {
		t.Errorf("only %d links were found", checked)
	}
}

func TestAnchors(t *testing.T) {
	used := map[string]int{}
	for heading, want := range map[string]string{
		"By quorum (`--algorithm quorum`)": "by-quorum---algorithm-quorum",
		"Chang–Roberts, [again](x.md)":     "changroberts-again",
		"Época":                            "época",
	} {
		if got := anchor(heading, used); got != want {
			t.Errorf("anchor(%q) = %q, want %q", heading, got, want)
		}
	}
	if got := anchor("Época", used); got != "época-1" {
		t.Errorf("a second heading of that text has the anchor %q", got)
	}
}

// fragmentsOf returns the fragments by which links lead into a page.
func fragmentsOf(t *testing.T, page string) map[string]bool {
	used, found := map[string]int{}, map[string]bool{}
	for _, line := range prose(t, page) {
		for _, m := range anchored.FindAllStringSubmatch(line, -1) {
			found[m[1]] = true
		}
		if text, ok := heading(line); ok {
			found[anchor(text, used)] = true
		}
	}
	return found
}

// resolve reports an error if a link on a page leads nowhere.
func resolve(t *testing.T, fragments map[string]map[string]bool, page, link string) error {
	target, fragment, _ := strings.Cut(link, "#")
	file := page
	if target != "" {
		file = path.Join(path.Dir(page), target)
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("link %q: there is no %s", link, file)
	}
	if fragment == "" || !strings.HasSuffix(file, ".md") {
		return nil
	}
	if fragments[file] == nil {
		fragments[file] = fragmentsOf(t, file)
	}
	if !fragments[file][fragment] {
		return fmt.Errorf("link %q: %s has no heading with that anchor", link, file)
	}
	return nil
}

// anchor is the fragment by which GitHub links to a heading.
func anchor(text string, used map[string]int) string {
	text = linkText.ReplaceAllString(text, "$1")
	text = strings.ReplaceAll(strings.ToLower(text), " ", "-")
	text = unanchored.ReplaceAllString(text, "")
	n := used[text]
	used[text]++
	if n > 0 {
		return fmt.Sprintf("%s-%d", text, n)
	}
	return text
}

// heading gives the text of a heading.
func heading(line string) (string, bool) {
	level, text, ok := strings.Cut(line, " ")
	return strings.TrimSpace(text), ok && level != "" && strings.Trim(level, "#") == ""
}

// prose gives the lines of a page, those of code blocks empty.
func prose(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return withoutCode(string(text))
}

// withoutCode gives the lines of a text, those of code blocks empty.
func withoutCode(text string) []string {
	lines := strings.Split(text, "\n")
	code := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			code = !code
		}
		if fence || code {
			lines[i] = ""
		}
	}
	return lines
}

// markdown lists the pages of the repository.
func markdown(t *testing.T) []string {
	t.Helper()
	var pages []string
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && entry.Name() == ".git" {
			return fs.SkipDir
		}
		if path.Ext(name) == ".md" {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// Every page has its place in the order of the index, which the site's "next" follows: docs/README.md
// links to it, or a README that the index links to.
func TestEveryPageHasANextPage(t *testing.T) {
	reached := map[string]bool{"README.md": true, "README.es.md": true, "docs/README.md": true}
	var index func(page string)
	index = func(page string) {
		for _, line := range prose(t, page) {
			for _, m := range linked.FindAllStringSubmatch(line, -1) {
				file, _, _ := strings.Cut(m[1], "#")
				file = path.Join(path.Dir(page), file)
				if path.Ext(file) != ".md" || reached[file] || page != "docs/README.md" && !strings.HasPrefix(file, path.Dir(page)+"/") {
					continue
				}
				reached[file] = true
				if path.Base(file) == "README.md" {
					index(file)
				}
			}
		}
	}
	index("docs/README.md")
	for _, page := range markdown(t) {
		if !reached[page] && !strings.HasPrefix(page, ".github/") {
			t.Errorf("%s is the next page of none: link to it in docs/README.md", page)
		}
	}
}

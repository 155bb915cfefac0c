package browsertest

import (
	"fmt"
	"html"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// siteDir is the documentation site, as docs/site/build.sh has written it.
func siteDir(t *testing.T) fs.FS {
	t.Helper()
	dir := os.Getenv("BATUTA_SITE")
	if dir == "" {
		t.Skip("set BATUTA_SITE to the directory that docs/site/build.sh has written")
	}
	return os.DirFS(dir)
}

// sitePages reads the pages of the documentation, by path; the lab is one of its own.
func sitePages(t *testing.T, site fs.FS) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" || strings.HasPrefix(name, "lab/") || name == "404.html" {
			return err
		}
		text, err := fs.ReadFile(site, name)
		pages[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 80 {
		t.Fatalf("the site has only %d pages", len(pages))
	}
	return pages
}

var (
	siteLink = regexp.MustCompile(`\s(?:href|src)="([^"]*)"`)
	siteID   = regexp.MustCompile(`\sid="([^"]*)"`)
	siteNext = regexp.MustCompile(`class="[^"]*pager-link next"[^>]*href="([^"]*)"|href="([^"]*)"[^>]*class="[^"]*pager-link next`)
)

// Every link of the site leads to a file of it, or to another host; its fragment to an element there.
func TestSiteLinks(t *testing.T) {
	site := siteDir(t)
	pages := sitePages(t, site)
	ids, checked := map[string]map[string]bool{}, 0
	for name, text := range pages {
		ids[name] = map[string]bool{}
		for _, m := range siteID.FindAllStringSubmatch(text, -1) {
			ids[name][html.UnescapeString(m[1])] = true
		}
	}
	for name, text := range pages {
		for _, m := range siteLink.FindAllStringSubmatch(text, -1) {
			link := html.UnescapeString(m[1])
			if strings.HasPrefix(link, "https://") || strings.HasPrefix(link, "http://") || strings.HasPrefix(link, "data:") {
				continue
			}
			checked++
			file, fragment, _ := strings.Cut(link, "#")
			switch {
			case file == "":
				file = name
			case strings.HasPrefix(file, "/"):
				file = file[1:]
			default:
				file = path.Join(path.Dir(name), file)
			}
			if file == "" || strings.HasSuffix(file, "/") {
				file += "index.html"
			}
			if _, err := fs.Stat(site, file); err != nil {
				t.Errorf("%s: link %q: the site has no %s", name, link, file)
			} else if fragment != "" && ids[file] != nil && !ids[file][fragment] {
				t.Errorf("%s: link %q: %s has no such place", name, link, file)
			}
		}
	}
	if checked < 5_000 {
		t.Errorf("only %d links were found", checked)
	}
}

// From the first page of each language, "next" leads through all pages of that language.
func TestSiteNext(t *testing.T) {
	pages := sitePages(t, siteDir(t))
	reached := map[string]bool{}
	for _, at := range []string{"index.html", "docs/es/index.html"} {
		for at != "" && !reached[at] {
			reached[at] = true
			text, ok := pages[at]
			if !ok {
				t.Fatalf("the site has no %s", at)
			}
			m := siteNext.FindStringSubmatch(text)
			if m == nil {
				break // the last
			}
			at = strings.TrimPrefix(m[1]+m[2], "/")
			if at == "" || strings.HasSuffix(at, "/") {
				at += "index.html"
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		if !reached[name] {
			t.Errorf("%s is the next page of none: put it into docs/README.md", name)
		}
	}
}

// serveSite serves the site until the test ends.
func serveSite(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.FileServerFS(siteDir(t)))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// No page is wider than a phone, and none fails as it loads.
func TestSiteOnAPhone(t *testing.T) {
	address := serveSite(t)
	b := open(t, browser(t), address)
	b.size(360, 740, "light")
	for _, name := range slices.Sorted(maps.Keys(sitePages(t, siteDir(t)))) {
		b.goTo(addressOf(address, name))
		b.fits(name)
	}
}

// addressOf is that of a page: the file server sends index.html under that of its directory.
func addressOf(site, page string) string { return site + strings.TrimSuffix(page, "index.html") }

// goTo opens a page of the site, and waits until its scripts have begun.
func (b *tab) goTo(address string) {
	b.Helper()
	b.do(chromedp.Navigate(address))
	b.until("document.querySelector('#app')?.__vue_app__")
}

// The kinds of pages, on each screen, light and dark.
func TestSiteIsForEveryone(t *testing.T) {
	address := serveSite(t)
	b := open(t, browser(t), address)
	for _, name := range []string{"index.html", "docs/guarantees.html", "docs/reference-api.html", "docs/es/primeros-pasos.html"} {
		for _, width := range []int64{390, 1280, 2560} {
			for _, scheme := range []string{"light", "dark"} {
				state := fmt.Sprintf("site-%s-%d-%s", strings.TrimSuffix(path.Base(name), ".html"), width, scheme)
				b.size(width, max(780, width*9/16), scheme)
				b.goTo(addressOf(address, name))
				b.until(fmt.Sprintf("document.documentElement.classList.contains('dark') === %t", scheme == "dark"))
				b.shoot(state)
				b.fits(state)
				if width < 2560 {
					b.accessible(state)
				}
			}
		}
	}
}

// The search needs no other host, and finds words of its language.
func TestSiteSearch(t *testing.T) {
	address := serveSite(t)
	b := open(t, browser(t), address)
	b.size(1280, 900, "light")
	for _, s := range []struct{ from, words, found string }{
		{"docs/index.html", "fencing token", "/docs/fencing.html"},
		{"docs/es/index.html", "primeros pasos", "/docs/es/primeros-pasos.html"},
	} {
		b.goTo(addressOf(address, s.from))
		b.click("#local-search button")
		b.until("document.querySelector('.VPLocalSearchBox input')")
		eval[any](b, with("words => { const i = document.querySelector('.VPLocalSearchBox input'); i.value = words; i.dispatchEvent(new Event('input')); return 0 }", s.words))
		b.until(with("to => [...document.querySelectorAll('.VPLocalSearchBox .result')].some(a => a.getAttribute('href').startsWith(to))", s.found))
		b.shoot("site-search-" + strings.Split(s.from, "/")[1])
		eval[any](b, with("to => { [...document.querySelectorAll('.VPLocalSearchBox .result')].find(a => a.getAttribute('href').startsWith(to)).click(); return 0 }", s.found))
		b.until(with("to => location.pathname === to", s.found))
	}
}

// The lab is inside, and plays.
func TestSiteHasTheLab(t *testing.T) {
	address := serveSite(t)
	b := open(t, browser(t), address+"docs/lab.html")
	b.size(1280, 900, "light")
	b.until("document.querySelector('#app')?.__vue_app__")
	b.click("nav a[href='/lab/']")
	b.until("location.pathname === '/lab/'")
	b.until(ready)
}

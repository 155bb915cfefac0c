package election_test

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

	. "github.com/batuta-dev/batuta/election"
)

// hostile is text that must not get anywhere raw.
var hostile = []string{
	"\x1b[31mred\x1b[0m", "\x1b]0;title\a", "a\u200bb", "a\u202eb", "a\u2066b", "\ufeffa", "a\u00adb", "a\u034fb", "a\ufe0fb",
	"a\u3164b", "a\u115fb", "a\u2028b", "a\u0085b", "a\x9bb", "a\U000e0041b", "a\r\nb", "a\u00a0b", "a\ue000b", "\u0301a",
}

func TestHostileTextIsNoID(t *testing.T) {
	for _, s := range hostile {
		if id, err := ParseID(s); err == nil {
			t.Errorf("ParseID(%+q) = %+q", s, id)
		} else if strings.ContainsAny(err.Error(), "\x1b\a\u202e\u200b") {
			t.Errorf("the error about %+q holds it raw", s)
		}
	}
}

func TestPrintableIDsStayAsTheyAre(t *testing.T) {
	for _, s := range []string{"<script>alert(1)<\\script>", "$(touch", "`id`", "'a'", `"a"`, "ñandú", "白", "नमस्ते", "-5", "a;b", "😀"} {
		if id, err := ParseID(s); err != nil || string(id) != s {
			t.Errorf("ParseID(%q) = %q, %v", s, id, err)
		}
	}
}

func TestTwoWaysToWriteANameAreOneID(t *testing.T) {
	for s, want := range map[string]ID{
		"Ma\u0301laga": "M\u00e1laga", "\u212a": "K", "\u2126": "\u03a9", "e\u0323\u0302": "\u1ec7",
	} {
		if id, err := ParseID(s); err != nil || id != want {
			t.Errorf("ParseID(%+q) = %+q, %v; want %+q", s, id, err, want)
		}
	}
	if id, err := ParseID(strings.Repeat("\u0958", MaxID/3)); err == nil { // NFC is longer
		t.Errorf("%d bytes are an id", len(id))
	}
}

func TestAddresses(t *testing.T) {
	label := strings.Repeat("a", 63)
	for _, addr := range []string{
		"127.0.0.1:1", "[::1]:7400", "[fe80::1%eth0]:65535", "[::ffff:1.2.3.4]:80", "localhost:7400", "batuta-0.batuta.svc:7400",
		"my_service:80", "example.com.:80", "A.b-c:80", "7:80", label + "." + label + "." + label + ":80",
	} {
		if err := CheckAddress(addr); err != nil {
			t.Errorf("%q: %v", addr, err)
		}
	}
	for _, addr := range append([]string{
		"", ":", "a", "a:", ":80", "a:0", "a:65536", "a:-1", "a:+1", "a:080", "a:http", "a:1_0", "a:80 ", " a:80", "a b:80", "$(touch x):80",
		"`id`:80", "a;b:80", "a/b:80", "user@host:80", "::1:80", "[::1]", "[::1", "[a]:80", "[127.0.0.1]:80", "[::1%$(x)]:80", "[::1%a b]:80", "1.2.3:80",
		"256.1.1.1:80", "-o:80", "a-.b:80", "a..b:80", ".a:80", "a*:80", "ñ:80", "a\x00:80", "a:80\n", strings.Repeat("a", 64) + ":80",
		strings.Repeat("a.", 127) + ":80",
	}, hostile...) {
		if err := CheckAddress(addr); err == nil {
			t.Errorf("%+q is taken", addr)
		} else if strings.ContainsAny(err.Error(), "\x1b\a\u202e\u200b\n\x00") {
			t.Errorf("the error about %+q holds it raw: %v", addr, err)
		}
		if addr != "a:0" && addr != ":80" && CheckListen(addr) == nil {
			t.Errorf("%+q is taken to listen on", addr)
		}
	}
	for _, addr := range []string{":0", ":7400", "127.0.0.1:0", "[::]:0"} {
		if err := CheckListen(addr); err != nil {
			t.Errorf("listen on %q: %v", addr, err)
		}
	}
}

func TestShownTextDoesNotSteer(t *testing.T) {
	for text, want := range map[string]string{
		"plain ñ 白 <b>": "plain ñ 白 <b>", "\x1b[31m": `\x1b[31m`, "a\u202eb": `a\u202eb`, "a\nb": `a\nb`, "a\x9bb": "a\ufffdb", "\U000e0041": `\U000e0041`,
	} {
		if got := Shown(text); got != want {
			t.Errorf("Shown(%+q) = %+q, want %+q", text, got, want)
		}
	}
}

func FuzzShown(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Shown(text)
		if !Printable(got, len(got)) || Printable(text, len(text)) && got != text {
			t.Fatalf("%+q is shown as %+q", text, got)
		}
	})
}

// What is taken for an address is one to the standard library too.
func FuzzCheckAddress(f *testing.F) {
	for _, s := range append([]string{"127.0.0.1:7400", "[::1]:1", "[fe80::1%eth0]:1", "a.b-c_d:65535", "$(touch x):80", "a:080"}, hostile...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, addr string) {
		if CheckAddress(addr) != nil {
			return
		}
		host, port, err := net.SplitHostPort(addr)
		if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 1 || n > 65535 || host == "" {
			t.Fatalf("%q is taken: %v", addr, err)
		}
		if _, err := netip.ParseAddr(host); err != nil && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			t.Fatalf("%q is taken", addr)
		}
		if strings.IndexFunc(addr, func(r rune) bool { return r > unicode.MaxASCII || r <= ' ' }) >= 0 {
			t.Fatalf("%q is taken", addr)
		}
	})
}

func isNFC(id ID) bool { return norm.NFC.IsNormalString(string(id)) }

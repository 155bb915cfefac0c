package election

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file checks text from users and peers, which reaches terminals, logs and the variables of
// hooks.

// MaxAddress is the maximum length of an address, in bytes.
const MaxAddress = 256

// CheckAddress returns what is wrong with addr as an address to dial, or nil. It is exactly
// HOST:PORT. HOST is an IPv4 address, an IPv6 address in brackets, or a name of letters, digits,
// '-', '_' and '.' (RFC 1123). PORT is a number from 1 to 65535.
func CheckAddress(addr string) error {
	host, port, err := splitAddress(addr)
	switch {
	case err != nil:
		return err
	case host == "":
		return errors.New("the host is missing")
	case port == 0:
		return errors.New("port 0 cannot be dialed: give the port itself")
	}
	return nil
}

// CheckListen is CheckAddress for an address to listen on: port 0 is any free port, and an empty
// host is every address of the machine.
func CheckListen(addr string) error {
	_, _, err := splitAddress(addr)
	return err
}

func splitAddress(addr string) (host string, port uint64, err error) {
	if len(addr) > MaxAddress {
		return "", 0, fmt.Errorf("longer than %d bytes", MaxAddress)
	}
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return "", 0, errors.New("give it as HOST:PORT")
	}
	host, digits := addr[:i], addr[i+1:]
	if port, err = strconv.ParseUint(digits, 10, 16); err != nil || strconv.FormatUint(port, 10) != digits {
		return "", 0, fmt.Errorf("port %q: give a number up to 65535", digits)
	}
	inner, bracketed := strings.CutPrefix(host, "[")
	if bracketed {
		inner, bracketed = strings.CutSuffix(inner, "]")
		if ip, err := netip.ParseAddr(inner); !bracketed || err != nil || !ip.Is6() || !isHostName(ip.Zone()) && ip.Zone() != "" {
			return "", 0, fmt.Errorf("host %q: brackets are for an IPv6 address", host)
		}
		return inner, port, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() || host == "" || isHostName(host) {
		return host, port, nil
	}
	return "", 0, fmt.Errorf("host %q: give an IPv4 address, an IPv6 address in brackets, or a name of letters, digits, '-', '_' and '.'", host)
}

// isHostName reports whether s is a name as in RFC 1123, 2.1. '_' is allowed too, because
// container networks use it. What looks like an IPv4 address is no name.
func isHostName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if len(s) > 253 || strings.Contains(s, ".") && strings.Trim(s, "0123456789.") == "" {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			switch {
			case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '-', c == '_':
			default:
				return false
			}
		}
	}
	return true
}

// Printable reports whether text from a peer may be kept: at most most bytes, all of them
// printable or spaces.
func Printable(text string, most int) bool {
	return len(text) <= most && utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !prints(r) && r != ' ' }) < 0
}

// Shown returns text from outside for a terminal. Characters that are not printable, or change
// how the rest is shown (control codes, zero-width and bidirectional marks), become Go escapes
// such as \u202e.
func Shown(text string) string {
	if Printable(text, len(text)) {
		return text
	}
	var b strings.Builder
	for _, r := range text { // invalid UTF-8 comes as U+FFFD
		if prints(r) || r == ' ' {
			b.WriteRune(r)
			continue
		}
		escaped := strconv.QuoteRuneToASCII(r)
		b.WriteString(escaped[1 : len(escaped)-1])
	}
	return b.String()
}

// prints reports whether a rune is visible, as a character or as a mark on the previous
// character. White space is not.
func prints(r rune) bool {
	if r < utf8.RuneSelf {
		return '!' <= r && r <= '~'
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

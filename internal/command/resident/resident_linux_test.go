package resident

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func held(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	kB, err := strconv.Atoi(string(regexp.MustCompile(`(?m)^RssFile:\s+(\d+)`).FindSubmatch(text)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kB
}

// The program goes on without the pages it has not touched since.
func TestAProcessShedsWhatItDoesNotNeed(t *testing.T) {
	exe, err := os.ReadFile("/proc/self/exe") // all of it is in the kernel's cache
	if err != nil || len(exe) == 0 {
		t.Fatal(err)
	}
	before := held(t)
	if err := Shed(); err != nil {
		t.Fatal(err)
	}
	after := held(t)
	t.Logf("%d kB of files are held, after %d", after, before)
	if after >= before {
		t.Error("nothing was given back")
	}
}

func TestOnlyCleanPagesAreDropped(t *testing.T) {
	const smaps = `00400000-00a0b000 r-xp 00000000 fe:00 7 /bin/batuta
Rss:                5024 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
00a0b000-0107d000 r--p 0060b000 fe:00 7 /bin/batuta
Anonymous:            12 kB
0107d000-010f6000 rw-p 00c7d000 fe:00 7 /bin/batuta
Anonymous:             0 kB
010f6000-01136000 rw-p 00000000 00:00 0
Anonymous:             0 kB
02000000-02001000 r--s 00000000 fe:00 9 /shared
Anonymous:             0 kB
7ffd1000-7ffd2000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
7f4c7c5ed000-7f4c7c743000 r-xp 00026000 fe:00 8 /lib/libc.so.6
Anonymous:             0 kB
`
	got, err := clean(strings.NewReader(smaps))
	if err != nil || len(got) != 2 || got[0] != (mapping{0x400000, 0xa0b000, "/bin/batuta"}) || got[1].file != "/lib/libc.so.6" {
		t.Errorf("%+v, %v: want the program's and the library's code alone", got, err)
	}
}

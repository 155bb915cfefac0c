package logfile

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// On a full disk a log is replaced, again and again, in the room that was reserved while there was some.
func TestALogIsReplacedOnAFullDisk(t *testing.T) {
	base := t.TempDir()
	if err := unix.Mount("tmpfs", base, "tmpfs", 0, "mode=700,size=2m"); err != nil {
		if os.Getenv("BATUTA_TEST_NETNS") != "" {
			t.Fatal(err)
		}
		t.Skip("a file system cannot be mounted here: ", err)
	}
	t.Cleanup(func() { unix.Unmount(base, unix.MNT_DETACH) })
	l, err := Open(filepath.Join(base, "data"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	filler, err := os.Create(filepath.Join(base, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	record := make([]byte, 100)
	for round := range 20 {
		for range 200 {
			if err := l.Append(record); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if err := l.Replace(record, record); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	if records, err := l.Load(); err != nil || len(records) != 2 {
		t.Errorf("the log has %d records, want 2: %v", len(records), err)
	}
}

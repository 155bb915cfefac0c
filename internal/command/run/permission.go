package run

import (
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
)

// warnOfOtherUser warns of a command that this process may not be able to end, because it changes
// its user.
func warnOfOtherUser(program string, log *slog.Logger) {
	path, err := exec.LookPath(program)
	if err != nil || mayKillAll() {
		return
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeSetuid == 0 {
		return
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		log.Warn("the command runs as another user (setuid), and the system may not let batuta stop it: two may run at once when leadership changes; run batuta as that user, or as root",
			"command", path, "uid", owner.Uid)
	}
}

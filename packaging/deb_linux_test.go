package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The scripts of the packages do on a machine with systemd what dpkg and rpm call them for. The commands of systemd are
// replaced by one that notes its arguments, in a mount namespace where /run is systemd's.
func TestPackageScripts(t *testing.T) {
	if os.Getenv("BATUTA_TEST_NETNS") == "" {
		t.Skip("set BATUTA_TEST_NETNS=1 as root: the test makes a mount namespace")
	}
	const units = " batuta.service batuta-vip.service\n"
	for _, tt := range []struct {
		what, kind, script string
		args               []string
		want, not          []string
	}{
		{"installed", "deb", "postinstall", []string{"configure", ""},
			[]string{"systemd-sysusers batuta.conf\n", "systemd-tmpfiles --create batuta.conf\n", "deb-systemd-helper update-state batuta.service\n", "systemctl --system daemon-reload\n"}, []string{"restart", "start"}},
		{"upgraded", "deb", "postinstall", []string{"configure", "0.1.0"},
			[]string{"systemctl --system daemon-reload\n", "deb-systemd-invoke try-restart" + units, "systemctl try-restart batuta-witness@*.service\n"}, nil},
		{"removed, before", "deb", "preremove", []string{"remove"}, []string{"deb-systemd-invoke stop" + units, "systemctl stop batuta-witness@*.service\n"}, nil},
		{"upgraded, before", "deb", "preremove", []string{"upgrade", "0.2.0"}, nil, []string{"deb-systemd-invoke"}},
		{"removed, after", "deb", "postremove", []string{"remove"}, []string{"systemctl --system daemon-reload\n"}, []string{"purge"}},
		{"purged", "deb", "postremove", []string{"purge"}, []string{"deb-systemd-helper purge" + units}, nil},
		{"removed, before", "rpm", "preremove", []string{"0"}, []string{"systemctl --no-reload disable --now" + units, "systemctl stop batuta-witness@*.service\n"}, nil},
		{"upgraded, before", "rpm", "preremove", []string{"1"}, nil, []string{"systemctl"}},
		{"removed, after", "rpm", "postremove", []string{"0"}, []string{"systemctl --system daemon-reload\n"}, []string{"restart"}},
		{"upgraded, after", "rpm", "postremove", []string{"1"}, []string{"systemctl try-restart" + units, "systemctl try-restart batuta-witness@*.service\n"}, nil},
	} {
		t.Run(tt.kind+", "+tt.what, func(t *testing.T) {
			scripts := documents(t, "nfpm.yaml")[0]
			for _, key := range []string{"overrides", tt.kind, "scripts"} {
				scripts, _ = scripts[key].(map[string]any)
			}
			path, _ := scripts[tt.script].(string)
			if path == "" {
				t.Fatalf("the .%s has no %s", tt.kind, tt.script)
			}
			dir := t.TempDir()
			calls := filepath.Join(dir, "calls")
			note := "#!/bin/sh\necho \"${0##*/} $*\" >>" + calls + "\n"
			for _, name := range []string{"systemctl", "systemd-sysusers", "systemd-tmpfiles", "deb-systemd-helper", "deb-systemd-invoke"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(note), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			script := `mount -t tmpfs none /run && mkdir -p /run/systemd/system && PATH="$1:$PATH" && shift && exec "$@"`
			cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", script, "sh", dir, "/bin/sh", "../" + path}, tt.args...)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			said, err := os.ReadFile(calls)
			if err != nil && tt.want != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(said), want) {
					t.Errorf("it does not call %q, but\n%s", want, said)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(string(said), not) {
					t.Errorf("it calls %q:\n%s", not, said)
				}
			}
		})
	}
}

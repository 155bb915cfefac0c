package hooks

import "testing"

func TestWhatOnlyAShellReads(t *testing.T) {
	for line, want := range map[string]string{
		"curl -f http://127.0.0.1/healthz":           "",
		"curl -f http://127.0.0.1/?a=1&b=2;c":        "",
		"curl -f http://127.0.0.1/healthz || exit 1": "||",
		"a && b":                            "&&",
		"a | b":                             "|",
		"a; b":                              "a;",
		"a ; b":                             ";",
		"a &":                               "&",
		"a > /dev/null":                     ">",
		"a 2>&1":                            "2>&1",
		"a >/dev/null":                      ">/dev/null",
		"a <b":                              "<b",
		"logger $BATUTA_LEADER":             "$BATUTA_LEADER",
		`logger "leader is $BATUTA_LEADER"`: "$BATUTA_LEADER",
		`logger 'leader is $BATUTA_LEADER' \$X '||' "||"`: "",
		"a ${X:-1}":       "${X:-1}",
		"a $(date)":       "$(date)",
		"a `date`":        "`date`",
		"a 5$ $ 3>2x 'b'": "3>2x",
		"a 5$ $ b-$":      "",
		"grep '^a|b$' f":  "",
	} {
		if got := forShell(line); got != want {
			t.Errorf("in %s: %q, want %q", line, got, want)
		}
	}
}

func TestWhatRunsWithoutAShell(t *testing.T) {
	for line, good := range map[string]bool{
		"true":                          true,
		"true || false":                 false,
		"true $HOME":                    false,
		`sh -c "test -n $HOME || true"`: true,
		"/bin/sh -c 'true || false'":    true,
		"no-such-command":               false,
		"true '":                        false,
	} {
		if argv, err := Command(line); (err == nil) != good || good && len(argv) == 0 {
			t.Errorf("%s: %q, %v", line, argv, err)
		}
	}
	if argv, err := Command(""); argv != nil || err != nil {
		t.Errorf("of nothing it makes %q, %v", argv, err)
	}
}

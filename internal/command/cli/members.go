package cli

import (
	"strings"

	"github.com/batuta-dev/batuta/election"
)

// CheckAddress refuses the value of a flag that is no HOST:PORT.
func CheckAddress(flag, addr string) error {
	if err := election.CheckListen(addr); err != nil {
		return Usagef("%s %q is not HOST:PORT with a port of 0 to 65535, such as 127.0.0.1:7400: %w", flag, addr, err)
	}
	return nil
}

// Member parses ID=HOST:PORT; what names it in errors.
func Member(what, item string) (id election.ID, addr string, err error) {
	name, addr, ok := strings.Cut(item, "=")
	if !ok {
		return "", "", Usagef("%s %q: write ID=HOST:PORT, such as 2=127.0.0.1:7402", what, item)
	}
	if id, err = election.ParseID(name); err != nil {
		return "", "", Usagef("%s %q: %w", what, item, err)
	}
	return id, addr, CheckAddress(what+" "+name, addr)
}

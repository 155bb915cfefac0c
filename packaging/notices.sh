#!/bin/sh
# Prints the licences of what a program was linked from, of Go and of each module, and where its source is.
# These licences ask that they come with each copy of the program.
# usage: packaging/notices.sh PROGRAM [DIR]     a program of "go build", and the module in which it was built
set -eu
PROGRAM=${1:?usage: packaging/notices.sh PROGRAM}
# texts TITLE DIR: the licences in DIR
texts() {
	printf '\n==== %s\n' "$1"
	found=$(find "$2" -maxdepth 1 -type f | grep -iE '/(licen[cs]e|copying|copyright|notice|patents)[^/]*$' | sort)
	[ -n "$found" ] || { echo "notices.sh: $1: no licence in $2: add the name of its file to notices.sh" >&2 && exit 1; }
	for file in $found; do
		printf '\n---- %s\n\n' "${file##*/}"
		cat "$file"
	done
}
echo "${PROGRAM##*/} is linked from Go and from these modules. Their licences follow."
texts "Go, https://go.dev/dl" "$(go env GOROOT)"
modules=$(go version -m "$PROGRAM" | awk '$1 == "dep" && $2 !~ "^github.com/batuta-dev/" {print $2 "@" $3}')
for module in $modules; do
	dir=$(go -C "${2:-.}" mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	texts "$module, https://pkg.go.dev/$module" "${dir:?$module cannot be fetched}"
done

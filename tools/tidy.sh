#!/usr/bin/env bash
# Runs "go mod tidy" in each module, or in those named, with batuta's modules as they are here. None of those is released
# yet, so each go.mod that needs one is read with replacements, which it does not keep.
# With --check it changes nothing, and fails where something is to be changed. Modules that build a server for a test
# of the engines are tidied where they are named: they take minutes.
# usage: tools/tidy.sh [--check] [FOLDER…]     such as: tools/tidy.sh . superpeer
set -euo pipefail
cd "$(dirname "$0")/.."
check=
[ "${1:-}" != --check ] || { check=1 && shift; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t all < <(git ls-files --cached --others --exclude-standard -- go.mod '*/go.mod' | while read -r file; do dirname "$file"; done)
folders=("$@")
[ $# != 0 ] || mapfile -t folders < <(printf '%s\n' "${all[@]}" | grep -v '^engines/internal/')
ours=github.com/batuta-dev/batuta

wrong=0
for folder in "${folders[@]}"; do
	cp "$folder/go.mod" "$work/go.mod"
	rm -f "$work/go.sum"
	[ ! -e "$folder/go.sum" ] || cp "$folder/go.sum" "$work/go.sum"
	edits=() undo=()
	if ! grep -q "^replace" "$folder/go.mod"; then
		for other in "${all[@]}"; do
			[ "$other" != "$folder" ] || continue
			path=$ours/$other
			[ "$other" != . ] || path=$ours
			edits+=("-replace=$path=$PWD/$other")
			undo+=("-dropreplace=$path")
		done
		go mod edit "${edits[@]}" "$work/go.mod"
	fi
	GOWORK=off go -C "$folder" mod tidy -modfile="$work/go.mod"
	[ ${#undo[@]} = 0 ] || go mod edit "${undo[@]}" "$work/go.mod"
	for file in go.mod go.sum; do
		[ -e "$work/$file" ] || continue
		if [ -z "$check" ]; then
			cp "$work/$file" "$folder/$file"
		elif ! diff -u "$folder/$file" "$work/$file"; then
			wrong=1
		fi
	done
done
[ "$wrong" = 0 ] || { echo "a go.mod or go.sum is to be changed: run tools/tidy.sh" >&2 && exit 1; }

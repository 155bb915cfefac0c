#!/usr/bin/env bash
# Makes the files of HEAD for one platform twice: they are the same, and hold the command and its modules.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOFLAGS=-modcacherw
platform=$(go env GOOS)/$(go env GOARCH)
git clone -q . "$work/one"
for _ in 1 2; do
	cp "$work/one/build/release/9.8.7/SHA256SUMS" "$work/before" 2>/dev/null || true
	"$work/one/packaging/release.sh" 9.8.7 "$platform" >"$work/one.out" 2>"$work/one.err"
done
cmp "$work/before" "$work/one/build/release/9.8.7/SHA256SUMS"
grep -q '^git push --atomic origin v9.8.7 engines/v9.8.7' "$work/one.out"
grep -q "needs a heading '## 9.8.7 - " "$work/one.err"
if "$work/one/packaging/release.sh" --push 9.8.7 "$platform" 2>/dev/null; then
	echo "it would tag a commit that CHANGELOG.md does not call 9.8.7" >&2
	exit 1
fi
cd "$work/one/build/release/9.8.7"
sha256sum --quiet -c SHA256SUMS
tar -xzf batuta_*.tar.gz -C "$work"
"$work"/batuta_9.8.7_*/batuta version | grep -q 'batuta 9.8.7,'
python3 - batuta_*.cdx.json <<'PY'
import json, sys
parts = {c["name"] for c in json.load(open(sys.argv[1]))["components"]}
assert "github.com/spf13/cobra" in parts, parts
PY
echo "two runs gave the same $(wc -l <SHA256SUMS) files"

#!/usr/bin/env bash
# Builds the documentation site: the Markdown of this repository, with search, in both languages,
# and the lab. The result is static; any web server can serve it.
#
#   docs/site/build.sh [DIRECTORY]     default: build/site
#
# It needs Go, git, and Node.js 18 or later with npm. The versions are those of package-lock.json.
# BATUTA_SITE_BASE is the path of the site at its host: /batuta/, for example; default /.
set -euo pipefail
site=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$site/../.." && pwd)
out=${1:-$root/build/site}
case $out in /*) ;; *) out=$PWD/$out ;; esac

work=$(mktemp -d) # not in the repository, whose tests and Go packages end at no node_modules
trap 'rm -rf "$work"' EXIT
cp -R "$site/package.json" "$site/package-lock.json" "$site/.vitepress" "$work"
(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)

# The pages are those that git knows, at their places: a link leads to the same page on the site.
mkdir "$work/pages"
cd "$root"
git ls-files --cached --others --exclude-standard >"$work/files.txt"
grep -E '\.(md|svg|png)$' "$work/files.txt" | grep -v '^\.github/' | xargs -d '\n' cp --parents -t "$work/pages"

(cd "$work" && NODE_ENV=production npx --no-install vitepress build . --outDir "$work/site")
go run ./cmd/batuta lab --static "$work/site/lab"
rm -rf "$out"
mkdir -p "$(dirname "$out")"
mv "$work/site" "$out"
echo "the site is in $out: serve it by any web server"

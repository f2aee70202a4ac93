#!/usr/bin/env bash
# Builds the page that dashboard-api embeds, when its sources changed. Does nothing when it is there.
# With --if-node a machine without Node learns what is missing, and goes on without the page.
set -euo pipefail
cd "$(dirname "$0")/.."

built=dashboard-api/page/built
fail() {
  echo "the page is not built: $1" >&2
  echo "(without it the binary serves a page that says so; the API and everything else work)" >&2
  [ "${1:-}" != "" ] && [ "$optional" = 1 ] && exit 0
  exit 1
}
optional=0
[ "${1:-}" != "--if-node" ] || optional=1

command -v node >/dev/null && command -v npm >/dev/null || fail "it needs Node 20.19 or later with npm (Debian: apt-get install nodejs npm)"
node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
  fail "it needs Node 20.19 or later; this is $(node --version)"

installed=$(sha256sum web/package-lock.json | cut -d' ' -f1)
if [ "$(cat web/node_modules/.installed 2>/dev/null || true)" != "$installed" ]; then
  echo "installing what the page is built with (once, about a minute)"
  npm ci --prefix web --ignore-scripts --no-audit --no-fund --loglevel=error || fail "npm could not install its packages"
  echo "$installed" > web/node_modules/.installed
fi

sources=$(cd web && find src index.html package-lock.json package.json tsconfig.json vite.config.ts compress.mjs ../dashboard-api/openapi.json \
  -type f ! -path src/api/schema.d.ts -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
if [ ! -f $built/index.html ] || [ "$(cat web/node_modules/.built 2>/dev/null || true)" != "$sources" ]; then
  echo "building the page"
  (cd web && npm run --silent build >/dev/null) || fail "its build failed: cd web && npm run build"
  echo "$sources" > web/node_modules/.built
fi

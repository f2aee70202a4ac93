#!/usr/bin/env bash
# Installs what the tests start or call and this machine lacks: PostgreSQL, Redis, kubectl, Chromium, and the
# vendors' Python clients in a virtual environment of the repository, Node and the clients from npm in a
# folder of it. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-.venv}
node_clients=.node-clients

missing=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
command -v redis-server >/dev/null || missing+=(redis-server)
command -v kubectl >/dev/null || missing+=(kubernetes-client)
command -v cc >/dev/null || missing+=(gcc)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v chromium >/dev/null || missing+=(chromium)
[ -d /usr/share/fonts/truetype/dejavu ] || missing+=(fonts-dejavu-core)
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
if [ ${#missing[@]} -gt 0 ]; then
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  echo "installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

wanted=$(sha256sum tests/python/requirements.txt | cut -d' ' -f1)
if [ "$(cat "$venv/installed" 2>/dev/null || true)" != "$wanted" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r tests/python/requirements.txt
  echo "$wanted" > "$venv/installed"
fi

if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
  echo "the clients from npm need Node 20 or later; this is $(node --version)" >&2
  exit 1
fi
wanted=$(sha256sum tests/node/package-lock.json | cut -d' ' -f1)
if [ "$(cat "$node_clients/installed" 2>/dev/null || true)" != "$wanted" ]; then
  mkdir -p "$node_clients"
  cp tests/node/package.json tests/node/package-lock.json "$node_clients/"
  # Scripts of dependencies build parts that only a terminal needs; Claude Code's puts its binary in place.
  npm ci --prefix "$node_clients" --ignore-scripts --no-audit --no-fund --loglevel=error
  node "$node_clients/node_modules/@anthropic-ai/claude-code/install.cjs"
  echo "$wanted" > "$node_clients/installed"
fi

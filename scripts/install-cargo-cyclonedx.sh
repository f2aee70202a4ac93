#!/usr/bin/env bash
# Installs cargo-cyclonedx below target/ when neither the machine nor that folder has it.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$PWD/target/tools/bin"
cargo cyclonedx --version >/dev/null 2>&1 && exit
cargo install --quiet --locked --debug --root target/tools cargo-cyclonedx@0.5.9

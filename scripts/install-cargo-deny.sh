#!/usr/bin/env bash
# Installs cargo-deny below target/ when neither the machine nor that folder has it: a cargo home that
# comes and goes does not cost another build.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$PWD/target/tools/bin"
cargo deny --version >/dev/null 2>&1 && exit
# Without optimisation it is built in half the time, and one run of it takes seconds either way.
cargo install --quiet --locked --debug --root target/tools cargo-deny@0.20.2

#!/usr/bin/env bash
# Installs cargo-fuzz when it is missing.
set -euo pipefail
cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-fuzz@0.13.2

#!/usr/bin/env bash
# Installs cargo-deny when it is missing.
set -euo pipefail
cargo deny --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-deny@0.20.2

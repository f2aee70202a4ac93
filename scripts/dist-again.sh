#!/usr/bin/env bash
# dist-again.sh: builds a release twice, each from nothing, and compares the checksums. Takes some ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
for round in 1 2; do
  rm -rf "target/dist-round-$round"
  rm -rf target/*/dist/lanekeeper target/*/dist/deps/lanekeeper* target/*/dist/deps/liblanekeeper*
  scripts/dist.sh "target/dist-round-$round"
done
diff target/dist-round-1/SHA256SUMS target/dist-round-2/SHA256SUMS
echo "both are the same"

#!/usr/bin/env bash
# package-tree.sh BINARY TREE: lays out below TREE what the archive and the Debian package hold: program,
# completions, manual pages, units, example documents and pages. The same binary makes the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(realpath "$1")
tree=$2
mkdir -p "$tree"
tree=$(realpath "$tree")
install -D -m 755 "$binary" "$tree/usr/bin/lanekeeper"

share=$tree/usr/share
mkdir -p "$share/man/man1"
"$binary" man "$share/man/man1"
gzip -9n "$share"/man/man1/*.1
install -d "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
"$binary" completion bash > "$share/bash-completion/completions/lanekeeper"
"$binary" completion zsh > "$share/zsh/vendor-completions/_lanekeeper"
"$binary" completion fish > "$share/fish/vendor_completions.d/lanekeeper.fish"

install -D -m 644 -t "$tree/usr/lib/systemd/system" deploy/systemd/lanekeeper-*.service
install -D -m 644 -t "$tree/etc/lanekeeper" deploy/systemd/server.env deploy/systemd/agent.env deploy/systemd/gateway.yaml

doc=$share/doc/lanekeeper
install -D -m 644 -t "$doc" README.md ARCHITECTURE.md
install -D -m 644 -t "$doc" docs/*.md
install -D -m 644 -t "$doc/examples" examples/*.yaml
gzip -9nc CHANGELOG.md > "$doc/changelog.gz"
install -m 644 deploy/debian/copyright "$doc/copyright"
[ ! -f "${SBOM:-}" ] || install -m 644 "$SBOM" "$doc/sbom.cdx.json"
find "$tree" -type d -exec chmod 755 {} +
find "$tree" -type f ! -perm -u+x -exec chmod 644 {} +

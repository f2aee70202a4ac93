#!/usr/bin/env bash
# dist.sh OUT: everything that a release holds, from a clean checkout: the archive, the Debian package, the
# chart, the manifests, the software bill of materials and checksums. Built twice from one commit with one toolchain, it is the
# same byte for byte (scripts/dist-again.sh looks).
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-dist}
version=$(cargo metadata --no-deps --format-version 1 --offline | python3 -c '
import json, sys
print(next(p["version"] for p in json.load(sys.stdin)["packages"] if p["name"] == "lanekeeper"))')
commit=$(git rev-parse --short=12 HEAD)
[ -z "$(git status --porcelain --untracked-files=no)" ] || commit=$commit-changed
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
export LANEKEEPER_VERSION="$version ($commit)"

# No path of this machine is in the program.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
flags="--remap-path-prefix=$PWD=/src --remap-path-prefix=$cargo_home=/cargo"
host=$(rustc -vV | sed -n 's/^host: //p')
# Static where Rust's musl library is installed, which not every machine can fetch; else with the C library
# alone as a dependency.
target=${host/-gnu/-musl}
[ -d "$(rustc --print target-libdir --target "$target" 2>/dev/null)" ] || target=$host
scripts/build-web.sh
# BINARY packages a program that is there already.
if [ -n "${BINARY:-}" ]; then
  binary=$BINARY
else
  CARGO_ENCODED_RUSTFLAGS=${flags// /$'\x1f'} \
    cargo build --locked --profile dist --bin lanekeeper --target "$target"
  binary=target/$target/dist/lanekeeper
fi

rm -rf "$out"
mkdir -p "$out"
scripts/install-cargo-cyclonedx.sh
PATH="$PATH:$PWD/target/tools/bin" cargo cyclonedx --manifest-path cli/Cargo.toml --format json \
  --spec-version 1.5 --override-filename sbom.cdx --quiet
mv cli/sbom.cdx.json "$out/lanekeeper-$version.cdx.json"
find . -name sbom.cdx.json -not -path './target/*' -delete
# Its serial number and time differ at each run and say nothing.
python3 - "$out/lanekeeper-$version.cdx.json" <<'PYTHON'
import json, sys
path = sys.argv[1]
bom = json.load(open(path))
bom.pop("serialNumber", None)
bom.get("metadata", {}).pop("timestamp", None)
text = json.dumps(bom, indent=1, sort_keys=True)
open(path, "w").write(text + "\n")
PYTHON

architecture=$(uname -m)
name=lanekeeper-$version-$architecture-linux
tree=target/dist-tree/$name
rm -rf target/dist-tree
SBOM=$out/lanekeeper-$version.cdx.json scripts/package-tree.sh "$binary" "$tree"
cp LICENSE "$tree/"
pack() {
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --format=gnu -C "$1" -cf - "$2" | gzip -9n > "$3"
}
pack target/dist-tree "$name" "$out/$name.tar.gz"
SBOM=$out/lanekeeper-$version.cdx.json scripts/package-debian.sh "$binary" "$version" "$out"

# Links in the chart are followed: it is whole by itself.
mkdir -p target/dist-tree/chart
cp -rL deploy/helm/lanekeeper target/dist-tree/chart/
pack target/dist-tree/chart lanekeeper "$out/lanekeeper-chart-$version.tgz"
mkdir -p "target/dist-tree/lanekeeper-deploy-$version"
cp -r deploy/kubernetes deploy/compose deploy/images.txt "target/dist-tree/lanekeeper-deploy-$version/"
pack target/dist-tree "lanekeeper-deploy-$version" "$out/lanekeeper-deploy-$version.tar.gz"

(cd "$out" && sha256sum -- * > SHA256SUMS)
ls -l "$out"

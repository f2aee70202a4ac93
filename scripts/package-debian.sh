#!/usr/bin/env bash
# package-debian.sh BINARY VERSION OUT: makes OUT/lanekeeper_VERSION_ARCHITECTURE.deb with dpkg-deb. The same
# binary and SOURCE_DATE_EPOCH make the same bytes. COMPRESSION is dpkg-deb's (xz; the tests take none).
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$1
version=$2
out=$3
architecture=$(dpkg --print-architecture)
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
scripts/package-tree.sh "$binary" "$tree"

# What the program is linked with; nothing when it is static.
depends=
if ldd "$binary" >/dev/null 2>&1 && ldd "$binary" | grep -q 'libc\.so'; then
  newest=$(grep -aoE 'GLIBC_2\.[0-9]+' "$binary" | sort -uV | tail -1 | cut -d_ -f2)
  depends=", libc6 (>= ${newest:-2.36}), libgcc-s1"
fi
mkdir "$tree/DEBIAN"
size=$(du -ks --exclude=DEBIAN "$tree" | cut -f1)
sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@SIZE@/$size/; s/@DEPENDS@/$depends/" \
  deploy/debian/control.in > "$tree/DEBIAN/control"
install -m 644 deploy/debian/conffiles "$tree/DEBIAN/conffiles"
install -m 755 deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm "$tree/DEBIAN/"
(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums)
find "$tree" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
mkdir -p "$out"
dpkg-deb --root-owner-group -Z"${COMPRESSION:-xz}" --build "$tree" "$out/lanekeeper_${version}_$architecture.deb"

#!/usr/bin/env bash
# package.sh OLD.deb NEW.deb: installs, starts, upgrades, removes and purges the package on a copy of this
# machine that vanishes with the script. Run in a mount namespace of its own, as root.
set -euo pipefail
old=$(realpath "$1")
new=$(realpath "$2")
step() { echo "step: $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

# A root over this machine's own: writes go to memory.
base=$(mktemp -d)
mount -t tmpfs tmpfs "$base"
mkdir "$base/upper" "$base/work" "$base/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$base/root"
root=$base/root
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
cp "$old" "$root/tmp/old.deb"
cp "$new" "$root/tmp/new.deb"
in_root() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
# Another lanekeeper of this machine is not what is looked at.
in_root dpkg --purge lanekeeper >/dev/null 2>&1 || true

servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true' EXIT

# start UNIT LOG READY...: runs a unit's program as its user with its environment file, on free ports.
start() {
  local unit=$1 log=$base/$1.log
  local variables
  variables=$(grep -E '^[A-Z_]+=' "$root/etc/lanekeeper/$unit.env")
  local listeners=(LANEKEEPER_HTTP_LISTEN=127.0.0.1:0 LANEKEEPER_GRPC_LISTEN=127.0.0.1:0 LANEKEEPER_OPS_LISTEN=127.0.0.1:0 LANEKEEPER_LISTEN=127.0.0.1:0)
  chroot "$root" setpriv --reuid lanekeeper --regid lanekeeper --clear-groups \
    env -i $variables "${listeners[@]}" /usr/bin/lanekeeper "$unit" > "$log" 2>&1 &
  servers+=($!)
  for _ in $(seq 600); do
    grep -q "ops listening on" "$log" && break
    kill -0 "${servers[-1]}" 2>/dev/null || { cat "$log" >&2; fail "$unit ended"; }
    read -rt 0.1 <> <(:) || true
  done
  address=$(sed -n 's/^ops listening on //p' "$log")
  for _ in $(seq 600); do
    in_root lanekeeper ready --ops-url "http://$address" >/dev/null 2>&1 && return
    read -rt 0.1 <> <(:) || true
  done
  cat "$log" >&2
  fail "$unit is not ready"
}
# stop: ends what was started and waits for it.
stop() {
  kill "${servers[@]}"
  for pid in "${servers[@]}"; do wait "$pid" || true; done
  servers=()
}

step install
in_root dpkg -i /tmp/old.deb
in_root lanekeeper --version
in_root getent passwd lanekeeper >/dev/null || fail "no user"
[ "$(in_root stat -c %a:%U:%G /etc/lanekeeper/agent.env)" = 640:root:lanekeeper ] || fail "agent.env is open"
[ "$(in_root stat -c %a:%U /var/lib/lanekeeper/server)" = 700:lanekeeper ] || fail "the state folder is open"
for file in man/man1/lanekeeper.1.gz man/man1/lanekeeper-agent.1.gz bash-completion/completions/lanekeeper \
  zsh/vendor-completions/_lanekeeper fish/vendor_completions.d/lanekeeper.fish doc/lanekeeper/copyright; do
  [ -s "$root/usr/share/$file" ] || fail "no $file"
done
zcat "$root/usr/share/man/man1/lanekeeper-agent.1.gz" | grep -q 'drain' || fail "the page says nothing of draining"
in_root bash -n /usr/share/bash-completion/completions/lanekeeper
in_root lanekeeper check /etc/lanekeeper/gateway.yaml
for example in "$root"/usr/share/doc/lanekeeper/examples/*.yaml; do
  in_root lanekeeper check "/usr/share/doc/lanekeeper/examples/$(basename "$example")" >/dev/null
done
if command -v systemd-analyze >/dev/null; then
  in_root systemd-analyze verify --man=no /usr/lib/systemd/system/lanekeeper-server.service /usr/lib/systemd/system/lanekeeper-agent.service
fi
in_root dpkg --verify lanekeeper

step start
start server
start agent
[ -s "$root/var/lib/lanekeeper/server/bootstrap-token" ] || fail "no first token"
http=$(sed -n 's/^http listening on //p' "$base/server.log")
sed 's/^gateway: edge/gateway: before/' "$root/etc/lanekeeper/gateway.yaml" > "$root/tmp/before.yaml"
in_root lanekeeper apply -f /tmp/before.yaml --url "http://$http" --token-file /var/lib/lanekeeper/server/bootstrap-token
stop

step upgrade
echo '# changed by the operator' >> "$root/etc/lanekeeper/gateway.yaml"
in_root dpkg -i --force-confold /tmp/new.deb
grep -q 'changed by the operator' "$root/etc/lanekeeper/gateway.yaml" || fail "the operator's change is gone"
[ "$(in_root dpkg-query -W -f '${Version}' lanekeeper)" = "$(dpkg-deb -f "$new" Version)" ] || fail "not the new version"
start server
http=$(sed -n 's/^http listening on //p' "$base/server.log")
[ "$(in_root lanekeeper get gateways -o name --url "http://$http" --token-file /var/lib/lanekeeper/server/bootstrap-token)" = before ] \
  || fail "what was there before the upgrade is gone"
stop

step remove
in_root dpkg --remove lanekeeper
[ ! -e "$root/usr/bin/lanekeeper" ] || fail "the program is still there"
[ -e "$root/etc/lanekeeper/gateway.yaml" ] || fail "the configuration is gone before it was purged"
[ -e "$root/var/lib/lanekeeper/server" ] || fail "the data are gone before they were purged"

step purge
in_root dpkg --purge lanekeeper
for path in /etc/lanekeeper /var/lib/lanekeeper /usr/share/doc/lanekeeper; do
  [ ! -e "$root$path" ] || fail "$path is still there"
done
! in_root getent passwd lanekeeper >/dev/null || fail "the user is still there"
echo "all steps done"

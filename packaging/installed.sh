#!/usr/bin/env bash
# The RPM packages of target/packages in an empty root, as root: installed,
# upgraded over a changed configuration, erased. It needs rpm and busybox-static. Debian's are
# installed by the rows debian-*-packages of `cargo xtask machines`.
set -euo pipefail
cd "$(dirname "$0")/.."
dist="${CARGO_TARGET_DIR:-$PWD/target}/packages"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,etc,run,usr/bin,var/lib/dpkg,var/lib/rpm}
cp /bin/busybox "$root/bin/sh"
# systemd-sysusers is not there, and its absence must not fail an installation by rpm.
rpm=(rpm --root "$root" --dbpath /var/lib/rpm --nodeps)
configuration="$root/etc/parachron/parachrond.toml"

"${rpm[@]}" -i "$dist"/*.rpm
rpm --root "$root" --dbpath /var/lib/rpm -V --nodeps parachron parachrond
chroot "$root" /usr/bin/parachrond --version
echo 'ntp = ["192.0.2.1"]' >>"$configuration"
"${rpm[@]}" -U --force "$dist"/*.rpm
grep -q 192.0.2.1 "$configuration"
"${rpm[@]}" -e parachron parachrond
grep -q 192.0.2.1 "$configuration.rpmsave"
! find "$root/usr" -name '*parachron*' -type f | grep .
echo "rpm: installed, upgraded and erased; a changed configuration is kept"

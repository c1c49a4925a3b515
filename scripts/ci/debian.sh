#!/usr/bin/env bash
# Runs a command on this repository in a newer Debian, which has compilers and libraries for other machines: debian.sh TARGET-FOLDER COMMAND...
# It is made in the folder at first, of 2 GB. Needs Linux on x86-64, root and debootstrap; skipped with a word without them.
set -euo pipefail
cd "$(dirname "$0")/../.."
debian=$1/debian
shift
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
  echo "debian: skipped: that needs root and debootstrap" >&2
  exit 0
fi

if [ ! -e "$debian/made" ]; then
  rm -rf --one-file-system "$debian"
  debootstrap --variant=minbase sid "$debian" http://deb.debian.org/debian
  echo 'APT::Install-Recommends "false";' >"$debian/etc/apt/apt.conf.d/90own"
  # A mirror may be behind.
  echo 'Acquire::Check-Valid-Until "false";' >>"$debian/etc/apt/apt.conf.d/90own"
  chroot "$debian" dpkg --add-architecture arm64
  chroot "$debian" dpkg --add-architecture s390x
  chroot "$debian" apt-get update
  DEBIAN_FRONTEND=noninteractive chroot "$debian" apt-get install -y ca-certificates cargo gcc gcc-aarch64-linux-gnu \
    gcc-s390x-linux-gnu libc6-dev libc6-dev:arm64 libc6-dev:s390x libstd-rust-dev-wasm32 libstd-rust-dev:arm64 \
    libstd-rust-dev:s390x lld make nodejs qemu-user rustc
  touch "$debian/made"
fi

mkdir -p "$debian/source" "$debian/root/.cargo/registry" "${CARGO_HOME:-$HOME/.cargo}/registry"
for file in resolv.conf hosts; do
  cp "/etc/$file" "$debian/etc/$file"
done
# Mounts that end with the command, so that nothing of them is below the folder when it is removed.
export debian repository=$PWD registry=${CARGO_HOME:-$HOME/.cargo}/registry
unshare --mount --propagation private bash -euc '
  mount --bind "$repository" "$debian/source"
  mount --bind "$registry" "$debian/root/.cargo/registry"
  mount --bind /proc "$debian/proc"
  mount --bind /dev "$debian/dev"
  exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 chroot "$debian" sh -c "cd /source && exec \"\$0\" \"\$@\"" "$@"
' debian "$@"

#!/usr/bin/env bash
# The tests of the conversions alone on machines of other words, byte order and instructions: cross.sh TARGET-FOLDER. What a machine needs
# and is not here is said, and it is skipped; with CROSS=all, that is an error.
set -euo pipefail
cd "$(dirname "$0")/../.."
into=$1
missing=0

skip() {
  echo "cross: skipped $1: $2" >&2
  missing=1
}

# on TARGET LINKER RUNNER...; a `-` for the linker is Rust's own.
on() {
  local target=$1 linker=$2
  shift 2
  local libraries variable=${target^^}
  variable=CARGO_TARGET_${variable//-/_}
  libraries=$(rustc --print target-libdir --target "$target")
  ls "$libraries"/libstd-*.rlib >/dev/null 2>&1 || { skip "$target" "no standard library in $libraries"; return; }
  for program in "$linker" "$1"; do
    [ "$program" = - ] || command -v "$program" >/dev/null || { skip "$target" "no $program"; return; }
  done
  [ "$linker" = - ] || export "${variable}_LINKER=$linker"
  export "${variable}_RUNNER=$*"
  echo "cross: $target, $(rustc --version)" >&2
  cargo test --locked -p cast-alone --target "$target" --target-dir "$into/cross"
}

# Where the libraries of a machine are: Debian's packages for cross compilation have a folder of their own, those of the machine
# itself have not.
root() {
  if [ -d "/usr/$1/lib" ]; then echo "/usr/$1"; else echo /; fi
}

on aarch64-unknown-linux-gnu aarch64-linux-gnu-gcc qemu-aarch64 -L "$(root aarch64-linux-gnu)"
on s390x-unknown-linux-gnu s390x-linux-gnu-gcc qemu-s390x -L "$(root s390x-linux-gnu)"
# Debian's compiler comes without Rust's linker.
on wasm32-wasip1 "$(command -v wasm-ld || echo -)" node "$PWD/scripts/ci/wasi.mjs"
# The same with vectors, which a program for wasm32 has or has not from the beginning.
export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS=-Ctarget-feature=+simd128
on wasm32-wasip1 "$(command -v wasm-ld || echo -)" node "$PWD/scripts/ci/wasi.mjs"

if [ "${CROSS:-}" = all ] && [ $missing = 1 ]; then
  exit 1
fi

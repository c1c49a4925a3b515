#!/usr/bin/env bash
# Puts the program of a checkout on the path of the steps that follow: install.sh CHECKOUT INTO. One of the checkout's version that is
# there already, on the path or in the cache, does.
set -euo pipefail
checkout=$1
into=$2
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$checkout/Cargo.toml" | head -n 1)

is_installed() {
  [ "$("$1" --version 2>/dev/null)" = "onnx-cast $version" ]
}

if ! is_installed onnx-cast && ! is_installed "$into/bin/onnx-cast"; then
  cargo install --locked --path "$checkout/cli" --root "$into"
fi
if [ -n "${GITHUB_PATH:-}" ]; then
  echo "$into/bin" >>"$GITHUB_PATH"
fi

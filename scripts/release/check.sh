#!/usr/bin/env bash
# Unpacks the archive in a folder and runs the demo's models with its program; then installs and tests the wheel: check.sh DIST.
set -euo pipefail
cd "$(dirname "$0")/../.."
dist=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for archive in "$dist"/onnx-cast-*.tgz; do [ ! -e "$archive" ] || tar -xzf "$archive" -C "$scratch"; done
for archive in "$dist"/onnx-cast-*.zip; do [ ! -e "$archive" ] || python3 -m zipfile -e "$archive" "$scratch"; done
program=$(echo "$scratch"/onnx-cast*)
chmod +x "$program"
make show ONNX_CAST="$program"
scripts/ci/test_wheel.sh "$dist" "$scratch/venv"

#!/usr/bin/env bash
# A wheel, and an archive of the program in it: build.sh TARGET INTO [MATURIN FLAG…].
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$1
into=$2
shift 2

python3 -m pip install --quiet --requirement scripts/requirements-release.txt
rm -rf "$into"
# The program is compiled once, for the wheel.
python3 -m maturin build --release --target "$target" --out "$into" "$@"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m zipfile -e "$into"/*.whl "$scratch"
program=$(echo "$scratch"/onnx_cast-*.data/scripts/onnx-cast*)
chmod +x "$program"
case $target in
  *windows*) (cd "$(dirname "$program")" && python3 -m zipfile -c "$scratch/archive.zip" "$(basename "$program")") &&
    mv "$scratch/archive.zip" "$into/onnx-cast-$target.zip" ;;
  *) tar -czf "$into/onnx-cast-$target.tgz" -C "$(dirname "$program")" "$(basename "$program")" ;;
esac
ls -l "$into"

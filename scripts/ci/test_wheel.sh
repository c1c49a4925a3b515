#!/usr/bin/env bash
# Installs the wheel in a folder into a fresh environment, as somebody without Rust would, and runs its tests: test_wheel.sh WHEELS VENV.
set -euo pipefail
wheel=$(echo "$1"/*.whl)
venv=$2
repository=$(cd "$(dirname "$0")/../.." && pwd)

size=$(wc -c <"$wheel")
if [ "$size" -gt 17000000 ]; then
  echo "error: $wheel takes $size bytes, more than 17 MB" >&2
  exit 1
fi
rm -rf "$venv"
python3 -m venv "$venv"
bin=$venv/bin
[ -d "$bin" ] || bin=$venv/Scripts
started=$SECONDS
"$bin/pip" install --quiet "$wheel"
echo "$wheel: $size bytes, installed in $((SECONDS - started)) s"
"$bin/pip" install --quiet --requirement "$repository/python/requirements-test.txt"
"$bin/mypy" --config-file "$repository/pyproject.toml" --python-executable "$bin/python" "$repository/python/onnx_cast"
# From a folder without the sources, so that the installed module is tested. No cargo, no rustc.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=$(realpath "$bin")/python
cd "$scratch"
"$python" -P -m pytest -q \
  -c "$repository/pyproject.toml" --rootdir "$repository" -p no:cacheprovider "$repository/python/tests"

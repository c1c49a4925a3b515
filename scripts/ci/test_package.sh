#!/usr/bin/env bash
# What `cargo publish` would upload, and a new crate that depends on it and has the README's snippet: test_package.sh TARGET. It is checked;
# with BUILD=build it is built, and the packaged crate's doctests are run, which compiles tract once more.
set -euo pipefail
cd "$(dirname "$0")/../.."
repository=$PWD
target=$(mkdir -p "$1" && realpath "$1")
library=tract-onnx-cast
# What somebody downloads who depends on the library, as cargo counts it. Operators that tract computes wrongly are a third of it; the
# README and the pages are there for the doctests that compile their examples.
most_bytes=$((720 * 1024))

rm -rf "$target/package"
cargo package --locked --no-verify --allow-dirty --workspace --exclude cast-alone --exclude test-tools --exclude demo --target-dir "$target"
for package in "$target"/package/*.crate; do
  size=$(wc -c <"$package")
  echo "$(basename "$package"): $size bytes"
  if [ "$size" -gt "$most_bytes" ]; then
    echo "error: that is more than $most_bytes bytes" >&2
    exit 1
  fi
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The graph is a crate of its own, which is published with the library.
graph=onnx-cast-graph
tar -xzf "$target"/package/$library-*.crate -C "$scratch"
tar -xzf "$target"/package/$graph-*.crate -C "$scratch"
packaged=$(echo "$scratch/$library"-*)
patch=$(printf '\n[patch.crates-io]\n%s = { path = "%s" }\n' "$graph" "$(echo "$scratch/$graph"-*)")

# The snippet and the dependencies are those of the README, with the package in the checkout's place.
new=$scratch/new
mkdir -p "$new/src"
python3 - "$repository/README.md" "$packaged" "$new" <<'END'
import re
import sys
from pathlib import Path

readme, packaged, new = Path(sys.argv[1]).read_text(), sys.argv[2], Path(sys.argv[3])
manifest = re.search(r"```toml\n(\[dependencies\].*?)```", readme, re.S).group(1)
program = re.search(r"```rust[^\n]*\n(.*?)```", readme, re.S).group(1)
dependencies, replaced = re.subn(r'(tract-onnx-cast = \{ path = )"[^"]*"', rf'\1"{packaged}"', manifest)
assert replaced == 1, manifest
(new / "Cargo.toml").write_text('[package]\nname = "new"\nedition = "2024"\n\n' + dependencies)
(new / "src" / "main.rs").write_text(program)
END
# The profiles and the versions of this repository, by which what is compiled of tract serves here too.
sed -n '/^# The demo and the tests share/,/^\[\[/p' Cargo.toml | grep -v '^\[\[' >>"$new/Cargo.toml"
echo "$patch" >>"$new/Cargo.toml"
cp Cargo.lock "$new"

# How many crates more somebody has who has tract-onnx.
bare=$scratch/bare
mkdir -p "$bare/src"
touch "$bare/src/lib.rs"
cp Cargo.lock "$bare"
{
  printf '[package]\nname = "bare"\nedition = "2024"\n\n[dependencies]\n'
  grep '^tract-onnx =' "$new/Cargo.toml"
} >"$bare/Cargo.toml"
crates() {
  cargo tree --manifest-path "$1/Cargo.toml" --prefix none --edges normal,build --no-dedupe | sed 's/ (.*//' | sort -u
}
crates "$bare" >"$scratch/of_tract"
crates "$new" | grep -v '^new \|^tract-onnx-cast \|^onnx-cast-graph ' >"$scratch/of_new"
comm -13 "$scratch/of_tract" "$scratch/of_new" >"$scratch/beyond"
echo "$(wc -l <"$scratch/beyond") crates beyond those of tract-onnx: $(paste -sd, "$scratch/beyond")"
if [ "$(wc -l <"$scratch/beyond")" -gt 4 ]; then
  echo "error: that is more than 4" >&2
  exit 1
fi
cargo "${BUILD:-check}" --manifest-path "$new/Cargo.toml" --target-dir "$target"

# The files that the doctests and the examples open are in the package.
cp Cargo.lock "$packaged"
echo "$patch" >>"$packaged/Cargo.toml"
if [ "${BUILD:-check}" = build ]; then
  cargo test --manifest-path "$packaged/Cargo.toml" --target-dir "$target" --doc
fi
grep -rhoE '"/(models|docs)/[^"]+"|"\.\./(docs/)?[A-Za-z./]+\.md"' "$packaged/src" "$packaged/examples" | tr -d '"' | sort -u |
  while read -r opened; do
    test -e "$packaged/${opened#../}" || { echo "error: $opened is not in the package" >&2; exit 1; }
  done

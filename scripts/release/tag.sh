#!/usr/bin/env bash
# The tag must be the version of Cargo.toml, and the changelog must have it: tag.sh vVERSION.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
if [ "$1" != "v$version" ]; then
  echo "error: the tag is $1, and Cargo.toml has version $version" >&2
  exit 1
fi
if ! grep -q "^## \[$version\]" CHANGELOG.md; then
  echo "error: CHANGELOG.md has no section [$version]" >&2
  exit 1
fi

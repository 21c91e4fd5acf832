#!/usr/bin/env bash
# Builds the last commit twice, in two directories with separate registries, and compares the bytes.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
first="$work/one"
second="$work/another/and/longer/path"
for directory in "$first" "$second"; do
  mkdir -p "$directory/home"
  git archive HEAD | tar -x -C "$directory"
  # Reuse crates that were downloaded before.
  cp -a -- "${CARGO_HOME:-$HOME/.cargo}/registry" "$directory/home/" 2>/dev/null || true
  env -u CARGO_TARGET_DIR CARGO_HOME="$directory/home" "$directory/scripts/release.sh"
done
cmp -- "$first/target/dist/ebb" "$second/target/dist/ebb"
if grep -aqF -e "$work" -- "$first/target/dist/ebb"; then
  echo 'reproducible: the binary contains its build path' >&2
  exit 1
fi
echo 'reproducible: both builds are identical'

#!/usr/bin/env bash
# Builds what is committed twice, in two directories with registries of their own, and compares the bytes.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
first="$work/one"
second="$work/another/and/longer/place"
for place in "$first" "$second"; do
  mkdir -p "$place/home"
  git archive HEAD | tar -x -C "$place"
  # Crates that are there already need not come over the network again.
  cp -a -- "${CARGO_HOME:-$HOME/.cargo}/registry" "$place/home/" 2>/dev/null || true
  env -u CARGO_TARGET_DIR CARGO_HOME="$place/home" "$place/scripts/release.sh"
done
cmp -- "$first/target/dist/ebb" "$second/target/dist/ebb"
if grep -aqF -e "$work" -- "$first/target/dist/ebb"; then
  echo 'reproducible: the binary names the place where it was built' >&2
  exit 1
fi
echo 'reproducible: the same bytes twice'

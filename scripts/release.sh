#!/usr/bin/env bash
# Builds the stripped release binary target/dist/ebb. It contains no build paths: the same sources, toolchain and system
# libraries give the same bytes in every directory (`make reproducible` checks it).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

here=$(pwd -P)
target=$(realpath -m -- "${CARGO_TARGET_DIR:-target}")
home=$(realpath -m -- "${CARGO_HOME:-$HOME/.cargo}")
rust=$(rustc --print sysroot)
commit=$(rustc -vV | sed -n 's/^commit-hash: //p')

# Both compilers use the last matching prefix.
maps=("$here=/ebb" "$target=/target" "$home=/cargo" "$rust/lib/rustlib/src/rust=/rustc/$commit")
flags=()
for map in "${maps[@]}"; do
  flags+=("--remap-path-prefix=$map")
  CFLAGS="${CFLAGS:-} -ffile-prefix-map=$map"
done
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f'; printf '%s' "${flags[*]}")
export CARGO_ENCODED_RUSTFLAGS CFLAGS CXXFLAGS="$CFLAGS"

cargo build --profile dist --locked --bin ebb
binary="$target/dist/ebb"
printf 'release: %s, %d bytes, sha256 %s\n' "${binary#"$here/"}" "$(stat -c %s -- "$binary")" \
  "$(sha256sum -- "$binary" | cut -d ' ' -f 1)"

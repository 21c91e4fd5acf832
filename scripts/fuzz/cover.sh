#!/usr/bin/env bash
# Stands between cargo and rustc for the crates of this workspace: counts edges and comparisons for libFuzzer, and says
# --cfg fuzzing. Dependencies are compiled as always, and shared with every other build.
set -euo pipefail
for argument in "$@"; do
  if [ "$argument" = --emit ] || [[ "$argument" == --emit=* ]]; then
    exec "$@" --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
      -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
      -Cllvm-args=-sanitizer-coverage-trace-compares
  fi
done
# Questions of cargo about rustc itself.
exec "$@"

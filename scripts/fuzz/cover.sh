#!/usr/bin/env bash
# RUSTC_WORKSPACE_WRAPPER for fuzzing: compiles the crates of this workspace with libFuzzer's coverage instrumentation and
# --cfg fuzzing. Dependencies are compiled as always and shared with all other builds.
set -euo pipefail
for argument in "$@"; do
  if [ "$argument" = --emit ] || [[ "$argument" == --emit=* ]]; then
    exec "$@" --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
      -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
      -Cllvm-args=-sanitizer-coverage-trace-compares
  fi
done
# Without --emit cargo only queries rustc for its version and targets.
exec "$@"

#!/usr/bin/env bash
# Builds the fuzz targets and runs all or the named ones: scripts/fuzz/run.sh EXECUTIONS [NAME …]. A target of weight w is
# executed EXECUTIONS x w times, or for at most EBB_FUZZ_SECONDS. The corpus is kept in target/fuzz/corpus for the next
# run, failing inputs in target/fuzz/failures.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

executions=$1; shift
seconds=${EBB_FUZZ_SECONDS:-0}
home=$PWD/target/fuzz
RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/fuzz/cover.sh cargo build --quiet --locked --features fuzzing --bin fuzz
mkdir -p "$home/failures"
cp target/debug/fuzz "$home/fuzz"

run_target() {
  local name=$1 runs=$2 corpus=$home/corpus/$1 log=$home/$1.log
  mkdir -p "$corpus"
  EBB_FUZZ=$name EBB_FUZZ_SEEDS=$corpus "$home/fuzz" >/dev/null
  if ! EBB_FUZZ=$name "$home/fuzz" "$corpus" -runs="$runs" -max_total_time="$seconds" -seed=1 -max_len=16384 \
    -rss_limit_mb=2048 -timeout=60 -print_final_stats=1 -artifact_prefix="$home/failures/$name-" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    printf 'fuzz: %s FAILED; the input is in %s/failures\n' "$name" "$home" >&2
    return 255
  fi
  printf '%-32s %10d executions\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
}
export -f run_target
export home seconds

list=$(EBB_FUZZ=list "$home/fuzz")
if [ "$#" -gt 0 ]; then list=$(grep -E "^($(IFS='|'; echo "$*")) " <<<"$list"); fi
awk -v unit="$executions" '{print $1, $2 * unit}' <<<"$list" \
  | xargs -P "$(nproc)" -L 1 bash -c 'set -euo pipefail; run_target "$0" "$1"' | tee "$home/summary"
awk '{total += $2} END {printf "%d targets, %d executions, no failure\n", NR, total}' "$home/summary"

#!/usr/bin/env bash
# Runs fault scenarios on a real broker: chaos.sh ci|full [SCENARIO…]. Prints for each scenario what was done and what the
# checker found, then the totals. Without names all scenarios run, and totals below the minimum of the size are a failure.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

size=$1
shift
case "$size" in
  ci) minimum=(kills=30 broker-restarts=10 records=1000000) ;;
  full) minimum=(kills=300 broker-restarts=50 records=10000000) ;;
  *) printf 'chaos: unknown size %s; use ci or full\n' "$size" >&2; exit 2 ;;
esac
# The minimum count of each fault, so that a fault that did not happen is noticed.
minimum+=(deaths-at-a-step=16 freezes-past-the-session=1 freezes-past-the-transaction=1 late-commits=1 lost-replies=1
  transactions-left-hanging=1 commits-torn=1 broker-moves=1 long-outages=1 damaged-replies=1
  panics=3 bad-weathers=1 connections-ended=1 joins=1 leaves=1 disks-filled=1 disks-lost=1 partitions-refused=1 rebalances=10)

root="${CARGO_TARGET_DIR:-$PWD/target}/kafka"
mkdir -p "$root"
tally="$root/tally"
rm -f -- "$tally"

# EBB_CHAOS_TEST names a test binary that is already built.
command=("${EBB_CHAOS_TEST:-}")
[ -n "${command[0]}" ] || command=(cargo test --locked --features fault-points,mutants --test kafka --)
status=0
EBB_CHAOS=$size EBB_CHAOS_TALLY=$tally "${command[@]}" --nocapture --test-threads=1 "${@:-chaos::}" --skip chaos::mutants ||
  status=$?
[ -e "$tally" ] || { printf 'chaos: no scenario finished\n' >&2; exit 1; }

printf '\nchaos (%s), by scenario:\n' "$size"
cat -- "$tally"
totals=$(awk '{ for (i = 2; i <= NF; i++) { split($i, pair, "="); sum[pair[1]] += pair[2] } }
  END { for (name in sum) print name "=" sum[name] }' "$tally" | sort)
if [ "$#" -eq 0 ]; then
  for required in "${minimum[@]}"; do
    have=$(sed -n "s/^${required%=*}=//p" <<<"$totals")
    if [ "${have:-0}" -lt "${required#*=}" ]; then
      printf 'chaos: %s=%s is below the required %s\n' "${required%=*}" "${have:-0}" "${required#*=}" >&2
      status=1
    fi
  done
fi
printf 'chaos (%s), all %d scenarios: %s\n' "$size" "$(wc -l <"$tally")" "${totals//$'\n'/ }"
exit "$status"

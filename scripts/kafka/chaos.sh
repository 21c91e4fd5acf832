#!/usr/bin/env bash
# Runs the chaos scenarios on a real broker: chaos.sh ci|full [TEST…]. Prints the injected faults and the checker's
# findings of each scenario, then the totals. Without test names all scenarios run, and the script fails if a total is
# below the required minimum of the size.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

size=$1
shift
case "$size" in
  ci) required=(kills=30 broker-restarts=10 records=1000000) ;;
  full) required=(kills=300 broker-restarts=50 records=10000000) ;;
  *) printf 'chaos: unknown size %s: use ci or full\n' "$size" >&2; exit 2 ;;
esac
# Every fault must have happened; the names are those of the summary lines (tests/kafka/chaos/summary.rs).
required+=(crash-point-kills=16 panics=3 freezes-past-session-timeout=1 freezes-past-transaction-timeout=1
  late-commits=1 dropped-commit-responses=1 hanging-transactions=1 torn-commits=1 broker-moves=1 long-outages=1
  corrupted-responses=1 adverse-network-conditions=1 connections-ended=1 joins=1 leaves=1 disks-filled=1 disks-lost=1
  partitions-refused=1 rebalances=10)

root="${CARGO_TARGET_DIR:-$PWD/target}/kafka"
mkdir -p "$root"
summary="$root/tally"
rm -f -- "$summary"

# EBB_CHAOS_TEST names a test binary that was built before.
tests=("${EBB_CHAOS_TEST:-}")
[ -n "${tests[0]}" ] || tests=(cargo test --locked --features fault-points,mutants --test kafka --)
status=0
EBB_CHAOS=$size EBB_CHAOS_TALLY=$summary "${tests[@]}" --nocapture --test-threads=1 "${@:-chaos::}" --skip chaos::mutants ||
  status=$?
[ -e "$summary" ] || { printf 'chaos: no scenario finished\n' >&2; exit 1; }

printf '\nchaos (%s), by scenario:\n' "$size"
cat -- "$summary"
totals=$(awk '{ for (i = 2; i <= NF; i++) { split($i, pair, "="); total[pair[1]] += pair[2] } }
  END { for (name in total) print name "=" total[name] }' "$summary" | sort)
if [ "$#" -eq 0 ]; then
  for minimum in "${required[@]}"; do
    total=$(sed -n "s/^${minimum%=*}=//p" <<<"$totals")
    if [ "${total:-0}" -lt "${minimum#*=}" ]; then
      printf 'chaos: %s=%s is below the required %s\n' "${minimum%=*}" "${total:-0}" "${minimum#*=}" >&2
      status=1
    fi
  done
fi
printf 'chaos (%s), totals of %d scenarios: %s\n' "$size" "$(wc -l <"$summary")" "${totals//$'\n'/ }"
exit "$status"

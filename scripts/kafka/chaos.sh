#!/usr/bin/env bash
# Plays faults on a real broker: chaos.sh ci|full [SCENARIO…]. Prints what was done in each scenario and what the checker
# found after it, then the sums. Without names of scenarios all are played, and sums below what the size promises fail.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

size=$1
shift
case "$size" in
  ci) least=(kills=30 broker-restarts=10 records=1000000) ;;
  full) least=(kills=300 broker-restarts=50 records=10000000) ;;
  *) printf 'chaos: %s: write ci or full\n' "$size" >&2; exit 2 ;;
esac
# Every fault has a count: one that did not happen is not shown.
least+=(deaths-at-a-step=16 freezes-past-the-session=1 freezes-past-the-transaction=1 late-commits=1 lost-replies=1
  transactions-left-hanging=1 commits-torn=1 broker-moves=1 long-outages=1 damaged-replies=1
  panics=3 bad-weathers=1 connections-ended=1 joins=1 leaves=1 disks-filled=1 disks-lost=1 partitions-refused=1 rebalances=10)

root="${CARGO_TARGET_DIR:-$PWD/target}/kafka"
mkdir -p "$root"
tally="$root/tally"
rm -f -- "$tally"

# Played by what was built before, when EBB_CHAOS_TEST names it.
play=("${EBB_CHAOS_TEST:-}")
[ -n "${play[0]}" ] || play=(cargo test --locked --features fault-points,mutants --test kafka --)
status=0
EBB_CHAOS=$size EBB_CHAOS_TALLY=$tally "${play[@]}" --nocapture --test-threads=1 "${@:-chaos::}" --skip chaos::mutants ||
  status=$?
[ -e "$tally" ] || { printf 'chaos: no scenario came to its end\n' >&2; exit 1; }

printf '\nchaos (%s), by scenario:\n' "$size"
cat -- "$tally"
sums=$(awk '{ for (i = 2; i <= NF; i++) { split($i, pair, "="); sum[pair[1]] += pair[2] } }
  END { for (name in sum) print name "=" sum[name] }' "$tally" | sort)
if [ "$#" -eq 0 ]; then
  for wanted in "${least[@]}"; do
    have=$(sed -n "s/^${wanted%=*}=//p" <<<"$sums")
    if [ "${have:-0}" -lt "${wanted#*=}" ]; then
      printf 'chaos: %s=%s is less than the promised %s\n' "${wanted%=*}" "${have:-0}" "${wanted#*=}" >&2
      status=1
    fi
  done
fi
printf 'chaos (%s), all %d scenarios: %s\n' "$size" "$(wc -l <"$tally")" "${sums//$'\n'/ }"
exit "$status"

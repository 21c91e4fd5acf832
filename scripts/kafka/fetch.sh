#!/usr/bin/env bash
# Fetches what the tests against a real broker need: the broker's jars into target/kafka/libs, and the Kafka client of the
# output checker into target/kafka/checker. Returns quickly if both match the versions in the repository. With KAFKA_BROKERS set
# the jars are not needed.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

root="${CARGO_TARGET_DIR:-target}/kafka"
mkdir -p "$root"
# Two test binaries may run this script at the same time.
exec 9>"$root/fetch.lock"
flock 9

say() { printf 'kafka: %s\n' "$*" >&2; }

# is_current NAME SOURCE: whether NAME was fetched completely for the current content of SOURCE. If not, its mark is removed,
# so that an interrupted fetch does not count as complete.
is_current() { cmp -s -- "$2" "$root/$1.from" || { rm -f -- "$root/$1.from"; false; }; }
mark_current() { cp -- "$2" "$root/$1.from"; }

if [ -z "${KAFKA_BROKERS:-}" ] && ! is_current libs scripts/kafka/pom.xml; then
  say "fetching the broker's jars"
  rm -rf -- "$root/libs" "$root/blank"
  mvn -q -B -ntp -f scripts/kafka/pom.xml dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$(realpath -- "$root")/libs" >&2
  mark_current libs scripts/kafka/pom.xml
fi

if ! is_current checker tests/kafka/checker/requirements.txt; then
  say "fetching the checker's client"
  rm -rf -- "$root/checker"
  python3 -m venv "$root/checker"
  "$root/checker/bin/pip" install -q --disable-pip-version-check -r tests/kafka/checker/requirements.txt >&2
  mark_current checker tests/kafka/checker/requirements.txt
fi

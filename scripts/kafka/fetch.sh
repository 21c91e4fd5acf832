#!/usr/bin/env bash
# Fetches what the tests on a real broker need, once: the broker's jars into target/kafka/libs, and the Kafka client of
# the checker into target/kafka/checker. Does nothing, quickly, when both are there for what the repository asks now;
# with KAFKA_BROKERS set nobody needs the jars.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

root="${CARGO_TARGET_DIR:-target}/kafka"
mkdir -p "$root"
# Two test binaries may come here at the same time.
exec 9>"$root/fetch.lock"
flock 9

say() { printf 'kafka: %s\n' "$*" >&2; }

# fetched NAME SOURCE: whether NAME was completed from the present content of SOURCE. What is begun anew is not, until it
# is done: a fetch that breaks off is not taken for whole.
fetched() { cmp -s -- "$2" "$root/$1.from" || { rm -f -- "$root/$1.from"; false; }; }
done_with() { cp -- "$2" "$root/$1.from"; }

if [ -z "${KAFKA_BROKERS:-}" ] && ! fetched libs scripts/kafka/pom.xml; then
  say "fetching the broker's jars"
  rm -rf -- "$root/libs" "$root/blank"
  mvn -q -B -ntp -f scripts/kafka/pom.xml dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$(realpath -- "$root")/libs" >&2
  done_with libs scripts/kafka/pom.xml
fi

if ! fetched checker tests/kafka/checker/requirements.txt; then
  say "fetching the checker's client"
  rm -rf -- "$root/checker"
  python3 -m venv "$root/checker"
  "$root/checker/bin/pip" install -q --disable-pip-version-check -r tests/kafka/checker/requirements.txt >&2
  done_with checker tests/kafka/checker/requirements.txt
fi

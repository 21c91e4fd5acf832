#!/usr/bin/env bash
# Runs one Kafka broker on loopback until it is stopped; jars and data are under target/kafka. PORT=9092 by default.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

scripts/kafka/fetch.sh

port="${PORT:-9092}"
root="${CARGO_TARGET_DIR:-target}/kafka"
home="$root/local-$port"
mkdir -p "$home/data"

sed -e "s|{node}|1|g" -e "s|{port}|$port|g" -e "s|{advertised_port}|$port|g" -e "s|{controller_port}|$((port + 1))|g" \
  -e "s|{internal_port}|$((port + 2))|g" \
  -e "s|{voters}|1@127.0.0.1:$((port + 1))|g" -e "s|{data}|$home/data|g" -e "s|{replicas}|1|g" -e "s|{in_sync}|1|g" \
  scripts/kafka/server.properties >"$home/server.properties"

run() { java -Xmx1g -Dlog4j2.configurationFile=scripts/kafka/log4j2.properties -cp "$root/libs/*" "$@"; }

if [ ! -f "$home/data/meta.properties" ]; then
  run kafka.tools.StorageTool format -t ZWJiLWxvY2FsLWNsdXN0ZQ -c "$home/server.properties" >"$home/format.log" 2>&1 ||
    { cat "$home/format.log" >&2; exit 1; }
fi
printf 'kafka: listening on 127.0.0.1:%s, data in %s\n' "$port" "$home/data" >&2
exec java -Xmx1g -Dlog4j2.configurationFile=scripts/kafka/log4j2.properties -cp "$root/libs/*" kafka.Kafka "$home/server.properties"

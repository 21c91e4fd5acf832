#!/usr/bin/env bash
# Runs a broker (unless KAFKA_BROKERS names one), a producer of synthetic clicks, and the service. RATE=2000 clicks per
# second by default. Ctrl-C stops everything that was started here.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

ebb="${CARGO_TARGET_DIR:-target}/release/ebb"
log="${CARGO_TARGET_DIR:-target}/kafka"
mkdir -p "$log"
started=()
trap 'for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done; wait' EXIT

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

if [ -z "${KAFKA_BROKERS:-}" ]; then
  port="${PORT:-9092}"
  KAFKA_BROKERS="127.0.0.1:$port"
  if ! listens "$port"; then
    PORT="$port" scripts/kafka/broker.sh >"$log/broker.log" 2>&1 &
    started+=($!)
    printf 'kafka: starting a broker, its log is %s\n' "$log/broker.log"
    for _ in $(seq 600); do
      listens "$port" && break
      kill -0 "${started[0]}" 2>/dev/null || { cat "$log/broker.log" >&2; exit 1; }
      sleep 0.5
    done
  fi
fi

# The first run of the producer creates the topic.
"$ebb" produce --brokers "$KAFKA_BROKERS" --count 1000 --seed 7
"$ebb" produce --brokers "$KAFKA_BROKERS" --rate "${RATE:-2000}" --seed "$RANDOM" &
started+=($!)

cat <<TEXT

  service   http://127.0.0.1:8080          metrics http://127.0.0.1:8080/metrics
  read the outputs (kcat, or kafkacat):
    kcat -b $KAFKA_BROKERS -X isolation.level=read_committed -C -t clicks.duplicate -o -10 -f '%h %s\n'

TEXT
EBB_KAFKA__BROKERS="$KAFKA_BROKERS" "$ebb" serve scripts/kafka/clicks.yaml

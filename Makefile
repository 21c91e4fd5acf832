# `make` prints what there is. Arguments go through ARGS: make run ARGS='--rate 5000'.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Where scripts/setup.sh puts cargo when there was none.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

ARGS ?=

.PHONY: help setup kafka-jars kafka run-kafka chaos chaos-ci run test lint bench repro release clean-data

help: ## Print this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name text; do printf '%-18s %s\n' "$$name" "$$text"; done

setup: ## Install what is missing: packages (Debian, Ubuntu), Rust
	@scripts/setup.sh

kafka-jars: ## Fetch what tests on a real broker need: JDK and Maven when absent, the broker's jars, the checker's client
	@scripts/setup.sh kafka
	@scripts/kafka/fetch.sh

run: setup ## Build, and run the embedded service with a synthetic click stream (ARGS: see 'ebb demo --help')
	@cargo run --release --locked --bin ebb -- demo $(ARGS)

test: setup kafka-jars ## Run every test (ARGS: as for cargo test)
	@cargo test --locked $(ARGS)

# One scenario at a time: a broker is heavy. ARGS: names of scenarios, such as chaos::kills.
CHAOS = cargo test --locked --features fault-points,mutants --test kafka -- --nocapture --test-threads=1 $(or $(ARGS),chaos::)

chaos-ci: kafka-jars ## Every fault on a real broker, at the small count: >= 30 kills, 10 broker restarts, 1 M records
	@EBB_CHAOS=ci $(CHAOS)

chaos: kafka-jars ## Every fault on a real broker, at the large count: >= 300 kills, 50 broker restarts, 10 M records (hours)
	@EBB_CHAOS=full $(CHAOS)

lint: setup ## Check formatting and lints
	@cargo fmt --check
	@cargo clippy --all-targets --locked -- -D warnings

bench: setup ## Measure every hot path beside its peers (ARGS='--bench timing' for one)
	@cargo bench --locked $(ARGS)

repro: setup ## Reproduce the papers' figures (ARGS: names of reproductions; all without)
	@cargo run --release --locked --example repro -- $(ARGS)

kafka: kafka-jars ## Run a Kafka broker on 127.0.0.1:9092 (PORT=…), its data under target/kafka
	@scripts/kafka/broker.sh

run-kafka: release kafka-jars ## Build, and run the service behind synthetic clicks in Kafka (KAFKA_BROKERS=… for a cluster of yours)
	@scripts/kafka/run.sh

release: setup ## Build target/release/ebb
	@cargo build --release --locked --bin ebb

clean-data: ## Forget everything: remove ./data, the state of services run from here
	@rm -rf -- data

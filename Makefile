# `make` lists the targets. Arguments are passed as ARGS: make run ARGS='--rate 5000'.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# scripts/setup.sh installs cargo here if there is none.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

ARGS ?=

# Pinned tools, installed into .cache/tools by scripts/tool.sh.
CARGO_DENY := 0.20.2
CARGO_CYCLONEDX := 0.5.9
HADOLINT := 2.15.1
TOOLS := .cache/tools/bin

# Every target with a help text is a command.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' Makefile)

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name text; do printf '%-18s %s\n' "$$name" "$$text"; done

setup: ## Install missing prerequisites: system packages (Debian, Ubuntu) and Rust
	@scripts/setup.sh

setup-bench:
	@scripts/setup.sh bench

kafka-jars: ## Fetch what the tests on a real broker need: JDK and Maven if absent, the broker's jars, the checker's client
	@scripts/setup.sh kafka
	@scripts/kafka/fetch.sh

contract-tools:
	@scripts/setup.sh python
	@scripts/contract.sh

run: setup ## Build and run the embedded service with a synthetic click stream (ARGS: see 'ebb demo --help')
	@cargo run --release --locked --bin ebb -- demo $(ARGS)

test: setup kafka-jars contract-tools ## Run all tests of the workspace and of the chart, and list the slowest (ARGS: as for cargo test)
	@scripts/test.py $(ARGS)
	@$(if $(ARGS),,$(MAKE) --no-print-directory helm-test)

helm-tools: ## Fetch what the chart's tests need: Go, Python and bubblewrap if absent, helm, promtool, schemas
	@scripts/setup.sh helm
	@scripts/helm/fetch.sh

# A virtual environment of its own, separate from the system's Python.
HELM_PYTHON = .cache/tools/python/bin/python

# Builds target/debug/ebb through a test target: the same features, and so the same artifacts, as `make test`.
helm-test: setup helm-tools ## Lint, render, validate and run the chart; test its alerts and dashboard (HELM_ARGS: as for pytest)
	@cargo test --locked --no-run --quiet --test layering
	@$(HELM_PYTHON) -m pytest -q -p no:cacheprovider tests/helm $(HELM_ARGS)

chart-run: ## Run the binary like the chart's pod (non-root, read-only root) and query it like 'helm test'
	@$(MAKE) --no-print-directory helm-test HELM_ARGS='-s -v -k "sandbox or runs_and_passes"'

helm-readme: helm-tools ## Generate the tables of helm/ebb/README.md from values.yaml
	@$(HELM_PYTHON) scripts/helm/readme.py

docs: setup ## Generate the references of configuration and metrics in docs/
	@cargo run --quiet --locked --bin ebb -- config --reference --markdown > docs/configuration.md
	@cargo run --quiet --locked --bin ebb -- metrics --markdown > docs/metrics.md

fuzz: setup ## Fuzz every decoder and parser, 10 M executions in total (ARGS: names of targets)
	@scripts/fuzz/run.sh 45000 $(ARGS)

fuzz-ci: setup ## Fuzz every decoder and parser for at most 3 seconds each
	@EBB_FUZZ_SECONDS=3 scripts/fuzz/run.sh 2000 $(ARGS)

chaos-ci: kafka-jars ## Inject every fault on a real broker: at least 30 kills, 10 broker restarts, 1 M records (ARGS: scenarios, such as chaos::kills)
	@scripts/kafka/chaos.sh ci $(ARGS)

chaos: kafka-jars ## Inject every fault at full size: at least 300 kills, 50 broker restarts, 10 M records (more than an hour)
	@scripts/kafka/chaos.sh full $(ARGS)

mutants: kafka-jars ## Break each recovery rule on purpose and check that the fault scenarios detect it (a quarter of an hour)
	@EBB_CHAOS=ci cargo test --locked --features fault-points,mutants --test kafka -- --nocapture --test-threads=1 chaos::mutants

contract: setup contract-tools ## Test the HTTP API against its OpenAPI document, 300 requests of each kind per operation (EBB_CONTRACT=…)
	@EBB_CONTRACT=$${EBB_CONTRACT:-300} cargo test --locked --test contract -- --nocapture --test-threads=1

lint: setup deny image-lint ## Check formatting, lints, documentation, licences, bans, sources and the Dockerfile
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --locked -- -D warnings
	@RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --quiet

bench: setup-bench ## Run all benchmarks against their peers (ARGS='--bench timing' for one)
	@cargo bench --locked $(ARGS)

bench-http: setup-bench ## Compare HTTP with a bare axum echo server; fails below the target ratio
	@cargo bench --locked --bench http

bench-kafka: kafka-jars ## Compare the service on a real broker with bare loops over the same client (ARGS: copy, consume, latency, restart)
	@cargo bench --locked --bench kafka -- $(ARGS)

repro: setup ## Reproduce the figures of the papers (ARGS: names of reproductions, default all)
	@cargo run --release --locked -p ebb-eval --example repro -- $(ARGS)

calibration: setup ## Check stated probabilities and penalties from a cold start, on synthetic streams and real logs (ARGS: names; EBB_DATA: directory of the logs)
	@cargo run --release --locked -p ebb-eval --example calibration -- $(ARGS)

guarantees: setup ## Compare the bounds of every aggregate with exact answers on 2,000 streams per family (ARGS='RUNS METHOD …')
	@cargo run --release --locked -p ebb-eval --example guarantees -- $(ARGS)

eval-real: setup ## Compare the service with exact answers on a real log (LOG=FILE: TSV with host, time in s, url, bytes)
	@test -n "$(LOG)" || { echo 'name a log: make eval-real LOG=access.tsv'; exit 2; }
	@EBB_REAL_LOG="$(abspath $(LOG))" cargo test --locked --test web_requests -- --ignored --nocapture

kafka: kafka-jars ## Run a Kafka broker on 127.0.0.1:9092 (PORT=…) with its data in target/kafka
	@scripts/kafka/broker.sh

run-kafka: build kafka-jars ## Build and run the service on synthetic clicks in Kafka (KAFKA_BROKERS=… for your own cluster)
	@scripts/kafka/run.sh

build: setup ## Build target/release/ebb with symbols for profilers and backtraces
	@cargo build --release --locked --bin ebb

release: setup ## Build the stripped release binary target/dist/ebb and print its size
	@scripts/release.sh

reproducible: setup ## Build the release binary twice in different directories and compare the bytes
	@scripts/reproducible.sh

deny: setup ## Check licences, bans and sources of all dependencies (deny.toml)
	@scripts/tool.sh cargo-deny $(CARGO_DENY)
	@$(TOOLS)/cargo-deny --locked check licenses bans sources

advisories: setup ## Check the dependencies against the RustSec advisory database (needs network access)
	@scripts/tool.sh cargo-deny $(CARGO_DENY)
	@$(TOOLS)/cargo-deny --locked check advisories

sbom: setup ## Write a CycloneDX bill of materials to target/sbom/ebb.cdx.json
	@scripts/tool.sh cargo-cyclonedx $(CARGO_CYCLONEDX)
	@scripts/sbom.sh

image-lint: ## Check docker/Dockerfile with hadolint
	@scripts/setup.sh image-lint
	@scripts/tool.sh hadolint $(HADOLINT)
	@$(TOOLS)/hadolint docker/Dockerfile

image-check: ## Build the image with buildah, run it without privileges and query it (needs root; BASES=registry for the real base images)
	@scripts/setup.sh image
	@scripts/image/check.sh

clean-data: ## Delete ./data, the state of services run from here
	@rm -rf -- data

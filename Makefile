# `make` prints what there is. Arguments go through ARGS: make run ARGS='--rate 5000'.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Where scripts/setup.sh puts cargo when there was none.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

ARGS ?=

# Programs that check what is built; scripts/tool.sh puts them into .cache/tools.
CARGO_DENY := 0.20.2
CARGO_CYCLONEDX := 0.5.9
HADOLINT := 2.15.1
TOOLS := .cache/tools/bin

# Every target that `make help` lists is a command, no file.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' Makefile)

help: ## Print this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name text; do printf '%-18s %s\n' "$$name" "$$text"; done

setup: ## Install what is missing: packages (Debian, Ubuntu), Rust
	@scripts/setup.sh

setup-bench:
	@scripts/setup.sh bench

kafka-jars: ## Fetch what tests on a real broker need: JDK and Maven when absent, the broker's jars, the checker's client
	@scripts/setup.sh kafka
	@scripts/kafka/fetch.sh

contract-tools:
	@scripts/setup.sh python
	@scripts/contract.sh

run: setup ## Build, and run the embedded service with a synthetic click stream (ARGS: see 'ebb demo --help')
	@cargo run --release --locked --bin ebb -- demo $(ARGS)

test: setup kafka-jars contract-tools ## Run every test (ARGS: as for cargo test)
	@cargo test --locked $(ARGS)
	@$(if $(ARGS),,$(MAKE) --no-print-directory helm-test)

helm-tools: ## Fetch what the chart's tests need: Go, Python and bubblewrap when absent, helm, promtool, schemas
	@scripts/setup.sh helm
	@scripts/helm/fetch.sh

# Not the project's Python: its packages are under .cache/tools.
HELM_PYTHON = .cache/tools/python/bin/python

# Built as for the other tests, which have built it already when they ran before: a build of its own would differ in features.
helm-test: setup helm-tools ## Lint, render, validate and run the chart; unit tests of its alerts and dashboard (HELM_ARGS: as for pytest)
	@cargo test --locked --no-run --quiet --test layering
	@$(HELM_PYTHON) -m pytest -q -p no:cacheprovider tests/helm $(HELM_ARGS)

chart-run: ## Run the built binary with the chart's rendered pod, non-root, on a read-only root, and ask it as 'helm test' does
	@$(MAKE) --no-print-directory helm-test HELM_ARGS='-s -v -k "sandbox or runs_and_passes"'

helm-readme: helm-tools ## Write the tables of helm/ebb/README.md from values.yaml
	@$(HELM_PYTHON) scripts/helm/readme.py

docs: setup ## Write the references of the configuration and the metrics into docs/
	@cargo run --quiet --locked --bin ebb -- config --reference --markdown > docs/configuration.md
	@cargo run --quiet --locked --bin ebb -- metrics --markdown > docs/metrics.md

fuzz: setup ## Fuzz every decoder and parser, 10 M executions in all (ARGS: names of targets)
	@scripts/fuzz/run.sh 45000 $(ARGS)

fuzz-ci: setup ## The same for at most a few seconds a target
	@EBB_FUZZ_SECONDS=3 scripts/fuzz/run.sh 2000 $(ARGS)

chaos-ci: kafka-jars ## Every fault on a real broker, at the small count: >= 30 kills, 10 broker restarts, 1 M records (ARGS: names, such as chaos::kills)
	@scripts/kafka/chaos.sh ci $(ARGS)

chaos: kafka-jars ## Every fault on a real broker, at the large count: >= 300 kills, 50 broker restarts, 10 M records (more than an hour)
	@scripts/kafka/chaos.sh full $(ARGS)

mutants: kafka-jars ## Break each rule of recovery on purpose, and see that the faults above show it (a quarter of an hour)
	@EBB_CHAOS=ci cargo test --locked --features fault-points,mutants --test kafka -- --nocapture --test-threads=1 chaos::mutants

contract: setup contract-tools ## Let schemathesis ask the service, 300 requests of each kind for each operation (EBB_CONTRACT=…), with all checks
	@EBB_CONTRACT=$${EBB_CONTRACT:-300} cargo test --locked --test contract -- --nocapture --test-threads=1

lint: setup deny image-lint ## Check formatting, lints, licences, bans, sources and the Dockerfile
	@cargo fmt --check
	@cargo clippy --all-targets --locked -- -D warnings

bench: setup-bench ## Measure every hot path beside its peers (ARGS='--bench timing' for one)
	@cargo bench --locked $(ARGS)

bench-http: setup-bench ## Measure HTTP beside a bare axum echo; fails when a bar is missed
	@cargo bench --locked --bench http

bench-kafka: kafka-jars ## Measure the service on a real broker beside bare loops over the same client (ARGS: copy, consume, latency, restart)
	@cargo bench --locked --bench kafka -- $(ARGS)

repro: setup ## Reproduce the papers' figures (ARGS: names of reproductions; all without)
	@cargo run --release --locked --example repro -- $(ARGS)

eval-real: setup ## Hold the service against exact answers on a real log (LOG=FILE: TSV with host, time in s, url, bytes)
	@test -n "$(LOG)" || { echo 'name a log: make eval-real LOG=access.tsv'; exit 2; }
	@EBB_REAL_LOG="$(abspath $(LOG))" cargo test --locked --test web_requests -- --ignored --nocapture

kafka: kafka-jars ## Run a Kafka broker on 127.0.0.1:9092 (PORT=…), its data under target/kafka
	@scripts/kafka/broker.sh

run-kafka: build kafka-jars ## Build, and run the service behind synthetic clicks in Kafka (KAFKA_BROKERS=… for a cluster of yours)
	@scripts/kafka/run.sh

build: setup ## Build target/release/ebb, with names for profilers and backtraces
	@cargo build --release --locked --bin ebb

release: setup ## Build what is shipped, target/dist/ebb: stripped; prints its size
	@scripts/release.sh

reproducible: setup ## Build what is shipped twice in different directories, and compare the bytes
	@scripts/reproducible.sh

deny: setup ## Check the licences, bans and sources of all dependencies (deny.toml)
	@scripts/tool.sh cargo-deny $(CARGO_DENY)
	@$(TOOLS)/cargo-deny --locked check licenses bans sources

advisories: setup ## Check the dependencies against the RustSec database (needs to reach it)
	@scripts/tool.sh cargo-deny $(CARGO_DENY)
	@$(TOOLS)/cargo-deny --locked check advisories

sbom: setup ## Write target/sbom/ebb.cdx.json: what is in the binary, as CycloneDX
	@scripts/tool.sh cargo-cyclonedx $(CARGO_CYCLONEDX)
	@scripts/sbom.sh

image-lint: ## Check docker/Dockerfile with hadolint
	@scripts/setup.sh image-lint
	@scripts/tool.sh hadolint $(HADOLINT)
	@$(TOOLS)/hadolint docker/Dockerfile

image-check: ## Build the image with buildah, run it without privileges, and ask it (root; BASES=registry for the real bases)
	@scripts/setup.sh image
	@scripts/image/check.sh

clean-data: ## Forget everything: remove ./data, the state of services run from here
	@rm -rf -- data

# What people type. `make` alone lists it.

.DEFAULT_GOAL := help
VENV := .venv
PYTHON := python3
FUZZ_SECS := 20
# Most tests wait for processes and for time; a thread for each core would leave the cores idle.
TEST_THREADS := $(shell echo $$((3 * $$(nproc))))
SOAK_SECONDS := 300
SOAK_SEEDS := 300

DIST := dist

.PHONY: help run test soak fuzz bench bench-fleet lint audit fmt web web-check dist dist-again setup setup-bench clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## build and start the demonstration: control plane, three agents, simulated providers, traffic
	@echo "The first build takes three to five minutes on two cores, later ones seconds."
	scripts/build-web.sh --if-node
	cargo build --locked --bin lanekeeper
	exec target/debug/lanekeeper demo

test: setup web-check ## install what the tests need when it is missing, then run every test
	cargo build --locked --workspace --all-targets
	RUST_TEST_THREADS=$(TEST_THREADS) cargo test --locked --workspace

soak: setup ## outages under 200 calls a second, some five minutes; $(SOAK_SEEDS) simulated fleets; then random harm for $(SOAK_SECONDS) seconds
	cargo bench --locked -p lanekeeper-agent --bench soak
	FIRST=1000 SEEDS=$(SOAK_SEEDS) AGENTS=200 cargo test --locked -p lanekeeper-tests --test simulation invariants -- --nocapture
	cargo build --locked --bin lanekeeper
	SOAK_SECONDS=$(SOAK_SECONDS) cargo test --locked -p lanekeeper-tests --test faults soak:: -- --nocapture

fuzz: ## feed every reader of strangers' bytes with random ones, $(FUZZ_SECS) seconds each
	scripts/install-cargo-fuzz.sh
	for target in retry_after error_body answer frames sse_reader locate headers framing translation; do \
		RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir tests/fuzz --sanitizer none $$target -- \
			-dict=tests/fuzz/words.dict -max_total_time=$(FUZZ_SECS) || exit 1; \
	done

lint: ## formatting, clippy, licences and sources of dependencies
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items
	scripts/install-cargo-deny.sh
	PATH="$$PATH:target/tools/bin" cargo deny --locked check licenses bans sources

audit: ## known vulnerabilities of dependencies (needs the advisory database on the network)
	scripts/install-cargo-deny.sh
	PATH="$$PATH:target/tools/bin" cargo deny --locked check advisories

fmt: ## format the code
	cargo fmt --all

bench: setup-bench ## measure the agent beside other gateways, and the breaker beside others; writes bench-results/
	cargo build --locked --profile dist --bin lanekeeper
	mkdir -p bench-results
	cargo bench --locked -p lanekeeper-breaker --bench cell > bench-results/cell.json
	cargo bench --locked -p lanekeeper-tests --bench breaker
	$(PYTHON) tests/bench/instructions.py
	$(PYTHON) tests/bench/run.py

bench-fleet: ## measure the control plane with simulated fleets beside its gates; writes bench-results/
	cargo build --locked --profile dist --bin lanekeeper
	$(PYTHON) tests/bench/fleet.py

web: ## build the page, which cargo embeds; needs Node 20.19
	scripts/build-web.sh

web-check: web ## types, lint and unit tests of the page
	cd web && npm run --silent check && npm test --silent

dist: ## what a release holds, into $(DIST): archive, Debian package, chart, bill of materials, checksums
	scripts/dist.sh $(DIST)

dist-again: ## build a release twice from nothing and compare the checksums
	scripts/dist-again.sh

setup: ## Debian packages and the clients from PyPI and npm that the tests need
	scripts/install-test-needs.sh $(VENV)
	scripts/install-deploy-needs.sh

setup-bench: setup
	scripts/install-bench-needs.sh

clean: ## remove everything that was built
	cargo clean
	rm -rf $(VENV) .node-clients

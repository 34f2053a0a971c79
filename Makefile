# Sluice: what one can do here. `make` alone lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Slow builds are shared between checkouts, by what pins them (docs/adr/0005).
SLUICE_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sluice
TOOLCHAIN := $(shell sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
export SLUICE_CACHE
export CARGO_TARGET_DIR ?= $(SLUICE_CACHE)/cargo/$(TOOLCHAIN)
LAB = $(CARGO_TARGET_DIR)/debug/lab
# Always the whole workspace: one set of features, so that no dependency is compiled twice.
BUILD = cargo build --quiet --workspace
# Most of the plain tests wait for something: more of them at once than there are cores.
AT_ONCE = 8

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ The two commands
.PHONY: demo test
demo: setup ## Watch an 8-pod quantum Job wait, be released and finish, beside the same Job ungated
	@$(BUILD) --bin sluice-demo
	@$(CARGO_TARGET_DIR)/debug/sluice-demo
test: setup lint ## Prove everything: lints, plain tests, stories on a real cluster
	cargo test --quiet --workspace --no-run
	@# Both of these mostly wait; the stories need the whole machine.
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-fast test-cluster
	$(MAKE) --no-print-directory test-stories

##@ Parts of the test
.PHONY: lint test-fast test-real test-cluster test-stories
lint: ## Format and clippy, warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
test-fast: setup ## Everything that needs no cluster
	RUST_TEST_THREADS=$(AT_ONCE) cargo test --quiet --workspace --lib --bins --test it
	cargo test --quiet --workspace --doc
test-real: test-cluster test-stories ## All that needs a real cluster
test-cluster: setup ## The lab itself and the keeper alone, on a real cluster
	cargo test --quiet --workspace --test cluster
test-stories: setup ## The stories, on a real cluster
	cargo test --quiet --workspace --test stories

##@ Numbers
.PHONY: bench
bench: setup ## Measure admission and release against their floors (release build)
	@$(BUILD) --release --bin bench
	SLUICE_PROFILE=release $(CARGO_TARGET_DIR)/release/bench

##@ With an account
.PHONY: check-account
check-account: ## Check Sluice at the real Amazon Braket, with your keys: make check-account ARGS="--bucket NAME"
	@$(BUILD) --bin check-account
	@$(CARGO_TARGET_DIR)/debug/check-account $(ARGS)

##@ The local cluster
.PHONY: setup up down
setup: ## Check and install what is needed, build the cluster's programs (cached)
	@command -v cargo >/dev/null || { echo "Rust is missing: install rustup, then come back"; exit 1; }
	@$(BUILD) --bin lab
	@$(LAB) build
	@$(LAB) python >/dev/null
up: setup ## Start the local cluster with Sluice in it
	@$(LAB) up
	@$(LAB) images
	@$(LAB) install
	@echo "export KUBECONFIG=$(SLUICE_CACHE)/lab/kubeconfig"
down: ## Stop it
	@$(BUILD) --bin lab
	@$(LAB) down

##@ Upkeep
.PHONY: fmt clients manifests deny
fmt: ## Format
	cargo fmt --all
clients: ## Write docs/clients.md from what the clients do (needs node)
	SLUICE_UPDATE=1 cargo test --quiet -p sluice-judges
manifests: ## Write the generated manifests
	SLUICE_UPDATE=1 cargo test --quiet -p sluice-webhook --test it manifests
deny: ## Licences, doubles and sources of the dependencies (needs cargo-deny)
	cargo deny check bans licenses sources

# Sluice: what one can do here. `make` alone lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Slow builds are shared between checkouts, by a hash of what pins them (docs/adr/0005).
SLUICE_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sluice
LOCK := $(shell cat Cargo.lock rust-toolchain.toml | sha256sum | cut -c1-16)
export SLUICE_CACHE
export CARGO_TARGET_DIR ?= $(SLUICE_CACHE)/cargo/$(LOCK)

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ The two commands
.PHONY: demo test
demo: setup ## Watch an 8-pod quantum Job wait, be released and finish, beside the same Job ungated
	cargo run --quiet -p sluice-demo
test: setup lint test-fast test-real ## Prove everything: lints, plain tests, stories on a real cluster

##@ Parts of the test
.PHONY: lint test-fast test-real
lint: ## Format and clippy, warnings are errors
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
test-fast: setup ## Everything that needs no cluster
	cargo test --workspace --quiet --exclude sluice-stories --exclude sluice-lab
test-real: setup ## The lab itself, then the stories, on a real cluster
	cargo test --quiet -p sluice-lab
	cargo test --quiet -p sluice-stories

##@ Numbers
.PHONY: bench
bench: setup ## Measure admission and release against their floors (release build)
	SLUICE_PROFILE=release cargo run --quiet --release -p sluice-experiments --bin bench

##@ The local cluster
.PHONY: setup up down
setup: ## Check and install what is needed, build the cluster's programs (cached)
	@cargo run --quiet -p sluice-lab -- setup
up: setup ## Start the local cluster with Sluice in it
	cargo run --quiet -p sluice-lab -- up --install
down: ## Stop it
	cargo run --quiet -p sluice-lab -- down

##@ Upkeep
.PHONY: fmt manifests deny
fmt: ## Format
	cargo fmt --all
manifests: ## Write the generated manifests
	cargo run --quiet -p sluice-webhook -- crd > manifests/base/crd.yaml
deny: ## Licences, doubles and sources of the dependencies (needs cargo-deny)
	cargo deny check bans licenses sources

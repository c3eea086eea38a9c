# Short names for the commands that are used most. ARGS is appended to the command: make demo ARGS='--help'.

CARGO_DENY_VERSION := 0.20.2
SQLX_CLI_VERSION := 0.9.0
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help deps deps-test demo up test check sqlx bench bench-peers cargo-deny sqlx-cli

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what is missing: Postgres, ZooKeeper, a Java runtime, a C compiler
	@./scripts/deps.sh

deps-test: ## install what the tests need beyond that: a Java compiler, Apache Curator, Python with kazoo
	@./scripts/deps.sh test

demo: deps ## compare the strategies on throwaway servers and write report/
	cargo build --release --locked
	./target/release/loadgen compare $(ARGS)

up: deps ## start the service on throwaway servers and keep it running until Ctrl-C
	cargo build --release --locked
	./target/release/loadgen up $(ARGS)

test: deps-test ## run every test
	cargo test --locked --workspace --all-targets $(ARGS)
	cargo test --locked --workspace --doc

check: cargo-deny ## formatting, lints, documentation, licences and sources of dependencies
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps
	cargo deny check bans licenses sources

sqlx: deps sqlx-cli ## write .sqlx anew, after a change of migrations or queries
	cargo run --quiet -p testbed -- sh -ec ' \
		cargo sqlx migrate run --source migrations; \
		SQLX_OFFLINE=false cargo sqlx prepare --workspace -- --all-targets'

bench: deps ## run the benchmarks
	cargo bench -p bench $(ARGS)

bench-peers: deps-test ## measure the locks beside those of Curator, kazoo and zookeeper-client
	cargo build --release --locked -p bench --bin bench-peers
	./target/release/bench-peers $(ARGS)

cargo-deny:
	@cargo deny --version >/dev/null 2>&1 || \
		{ set -x; cargo install --locked cargo-deny --version $(CARGO_DENY_VERSION); }

sqlx-cli:
	@cargo sqlx --version >/dev/null 2>&1 || \
		{ set -x; cargo install --locked sqlx-cli --version $(SQLX_CLI_VERSION) --no-default-features --features postgres; }

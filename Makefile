# Short names for common commands. ARGS is appended to the command: make demo ARGS='--help'.

CARGO_DENY_VERSION := 0.20.2
# Must equal gungraun's version in Cargo.toml.
GUNGRAUN_VERSION := 0.20.0
CRITCMP_VERSION := 0.1.8
SQLX_CLI_VERSION := 0.9.0
# It only reports an unknown kind, and ends with 0.
KUBERNETES_VALIDATE := target/workflow-python/bin/kubernetes-validate --strict --quiet -k 1.34 -k 1.37
ARGS ?=
BASE ?=

.DEFAULT_GOAL := help
.PHONY: help deps deps-test deps-check deps-bench demo demo-programs up test stress reservations contract mixtures fuzz reconnects check check-model weather schedules torture lock-torture torture-results planted seeds site msrv package sqlx bench bench-once bench-compare bench-peers bench-service bench-chart coverage false-verdicts verdicts shops sample-report cargo-deny critcmp gungraun-runner sqlx-cli

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what is missing: Postgres, ZooKeeper, a Java runtime, a C compiler; INSTALL=unpack needs no administrator
	@./scripts/deps.sh

deps-test: ## install what the tests need beyond that: a JDK instead of the Java runtime, Apache Curator, Python with kazoo, schemathesis, Flask, k6 and Locust, Node.js with the types of k6, wrk, JMeter, promtool, pgbouncer, libfaketime, MariaDB, Redis
	@./scripts/deps.sh test

deps-check: ## install what make check needs beyond deps: Python with jactionlint, zizmor, shellcheck, kubernetes-validate and Sphinx
	@./scripts/deps.sh check

deps-bench: ## install what the benchmarks need beyond deps: wrk, valgrind
	@./scripts/deps.sh bench

demo: deps demo-programs ## compare the strategies on throwaway servers and write report/
	@echo 'demo: comparing' >&2
	./target/release/loadgen compare $(ARGS)

up: deps demo-programs ## start the service on throwaway servers and keep it running until Ctrl-C
	./target/release/loadgen up $(ARGS)

# The demo needs no database of another shop, and is built sooner without their drivers.
demo-programs: deps
	@[ -x target/release/loadgen ] || echo 'demo: building; on two cores this takes about four minutes the first time' >&2
	cargo build --release --locked --no-default-features -p demo-service -p loadgen

MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' locks/recipes/Cargo.toml)
TEST := cargo test --locked --workspace --no-fail-fast

# These settings of the user's server would also apply to the throwaway ones.
ifeq ($(DATABASE_URL),)
unexport PGSSLMODE PGSSLROOTCERT PGSSLCERT PGSSLKEY PGOPTIONS PGAPPNAME
endif

# The unit tests and the models compute, the others mostly wait for servers. So both groups run at once, and the others use one
# thread more than there are cores. Each group names its tests: without some crates, cargo would build others anew, with fewer features.
test: deps-test ## run every test, even after a failure; ARGS chooses: ARGS='--test it -- keys'
ifneq ($(strip $(ARGS)),)
	$(TEST) $(ARGS)
else
	$(TEST) --all-targets --no-run
	cargo build --locked --workspace --example goose_scenario
	@failed=0; set -x; \
	$(TEST) --lib --test protocol --test planted --test walks --test weather --test schedules --test interleaved >target/unit-tests.log 2>&1 & units=$$!; \
	RUST_TEST_THREADS=$$(($$(getconf _NPROCESSORS_ONLN) + 1)) \
	$(TEST) --bins --test it --test stress --test vectors --test capacity --test coverage --test predictions --bench locks --bench deductions --examples || failed=1; \
	$(TEST) --doc || failed=1; \
	wait $$units || failed=1; cat target/unit-tests.log; \
	exit $$failed
endif

# Make exports STRESS_SECONDS and STRESS_SEED.
stress: deps ## stress the locks with random faults for ten minutes; STRESS_SECONDS sets the time, STRESS_SEED the choices
	STRESS_SECONDS=$${STRESS_SECONDS:-600} cargo test --locked -p zk-recipes --test stress -- --nocapture $(ARGS)

# Make exports RESERVATION_RACES. Twenty thousand races took 70 s on two busy cores, so a million take up to an hour.
reservations: deps ## let payers, cancellations, sweepers and the time race for a million reservations; RESERVATION_RACES sets the number
	RESERVATION_RACES=$${RESERVATION_RACES:-1000000} cargo test --release --locked -p demo-service --test it -- --nocapture \
		reservations::races::each_of_many_reservations_ends_exactly_once $(ARGS)

contract: deps-test ## ask the service whatever its document allows and forbids; CONTRACT_EXAMPLES sets the requests for each operation
	CONTRACT_EXAMPLES=$${CONTRACT_EXAMPLES:-400} cargo test --locked -p demo-service --test it -- --nocapture \
		contract::the_service_keeps_to_its_document_whatever_it_is_asked $(ARGS)

mixtures: deps-test ## let the strategies of each family sell together for half a minute; MIXTURE_SECONDS sets the time
	MIXTURE_SECONDS=$${MIXTURE_SECONDS:-30} cargo test --locked -p demo-service --test it -- --nocapture mixtures:: $(ARGS)

# Make exports FUZZ_SECONDS.
fuzz: deps ## look for inputs that break a property of a parser; FUZZ_SECONDS sets the time for each target, ARGS=permits chooses one
	FUZZ_SECONDS=$${FUZZ_SECONDS:-60} scripts/fuzz.sh $(ARGS)

reconnects: deps ## measure up to which round trip a hold survives a reconnect: the table of locks/GUARANTEES.md
	cargo run --locked -p zk-recipes --example reconnects

check: deps-check cargo-deny site ## formatting, lints, documentation, prose, licences and sources of dependencies, workflows, scripts, manifests
	target/workflow-python/bin/shellcheck scripts/*.sh .ci/run loadgen/src/shop/reproduction/tests/*.sh tools/tidy/tests/it/*.sh
	PATH="$(CURDIR)/target/workflow-python/bin:$$PATH" jactionlint --strict-exit
	target/workflow-python/bin/zizmor --offline --quiet --strict-collection --pedantic .
	@set -x; said=$$($(KUBERNETES_VALIDATE) docs/kubernetes/*.yaml) && [ -z "$$said" ] || { echo "$$said"; exit 1; }
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --workspace --bench instructions -- -D warnings
	cargo clippy --locked -p lock-weather -p planted-mistakes -p interleaved --test wide --test search --test find -- -D warnings
	cargo clippy --locked -p zk-recipes --lib --no-default-features -- -D warnings
	cargo test --locked -p tidy --test it -- documents:: guarantees:: names:: prose:: tidy::
	cargo deny check bans licenses sources

# The documents link to the sample report and to the documentation of the crates, so both are copied. A test of tidy leaves JSON there.
site: deps-check ## write the documents, the sample report and the documentation of the crates to target/site
	rm -rf target/site
	target/workflow-python/bin/sphinx-build --fail-on-warning --quiet -c .github/pages -d target/site-read . target/site
	cp target/site/README.html target/site/index.html
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps
	cp -R target/doc target/site/api
	rm -f target/site/api/*.json

sqlx: deps sqlx-cli ## write .sqlx again, after a change of migrations or queries
	cargo run --quiet -p testbed -- -- sh -ec ' \
		cargo sqlx migrate run --source migrations; \
		SQLX_OFFLINE=false cargo sqlx prepare --workspace -- --all-targets'

bench: deps-bench gungraun-runner ## run the benchmarks; with ARGS only those that take times: ARGS='-- handover/mutex'
	cargo bench --locked -p bench $(ARGS)
ifeq ($(strip $(ARGS)),)
	@if command -v valgrind >/dev/null; then set -x; cargo bench --locked -p bench --bench instructions; \
	else echo 'bench: there is no valgrind here, so no instructions were counted' >&2; fi
endif

bench-once: deps-bench gungraun-runner ## run the benchmarks that make test leaves out once, unmeasured: instructions
	cargo test --locked --workspace --bench instructions

# Make exports BASE, so a quote in it does no harm.
bench-compare: ## compare the benchmarks of the work tree with those of a revision: BASE=main; ARGS=instructions or ARGS='times handover/mutex'
	@$(if $(strip $(BASE)),,echo 'usage: make bench-compare BASE=<revision>' >&2; exit 64)
	@$(MAKE) --no-print-directory deps-bench gungraun-runner critcmp
	@scripts/bench-compare.sh "$$BASE" $(ARGS)

msrv: ## build the lock library and zk-lock with the oldest Rust version that they promise
	rustup toolchain install $(MSRV) --profile minimal
	RUSTUP_TOOLCHAIN=$(MSRV) cargo check --locked --target-dir target/msrv -p zk-recipes-protocol -p zk-recipes -p zk-lock
	RUSTUP_TOOLCHAIN=$(MSRV) cargo check --locked --target-dir target/msrv --no-default-features -p zk-recipes

# Cargo builds the libraries and programs of the packed crates, but no examples.
package: ## build the crates as packed for crates.io, with their examples, and upload nothing
	cargo publish --workspace --dry-run --locked
	./scripts/packed-examples.sh

check-model: ## search all states of the queue's model with more contenders and faults than make test has time for
	cargo test --locked -p lock-weather --test wide

weather: ## run the machines of the locks in simulated weather, a minute each; ARGS='queue --seed 7 --trace' prints a walk
	cargo run --profile weather --locked -p lock-weather -- \
		$(if $(strip $(ARGS)),$(ARGS),--time 1m --all-sights)

schedules: ## let buyers, workers and instances meet in the batch queue in a hundred thousand orders each; ARGS='several --seed 7 --trace' prints one
	cargo run --profile weather --locked -p interleaved -- $(ARGS)

planted: deps-test demo-programs ## build a copy with mistakes that can be switched on, let faults and tests find each, and write what was found; ARGS='fence' takes those whose names have it
	cargo run --locked -p planted-service -- $(ARGS)

torture: deps-test demo-programs ## let faults strike the service and its servers, a round of each strategy; ARGS='--for 1h' or ARGS='--faults postgres*'
	./target/release/loadgen torture $(ARGS)

torture-results: deps ## judge the stored runs of torture again, and write the pages of their results
	mkdir -p target
	cargo run --quiet --locked -p loadgen -- torture --results docs/torture-records/*.json >target/torture-results.md
	mv target/torture-results.md docs/torture-results.md
	cargo run --quiet --locked -p lock-torture -- results locks/torture/records/*.json >target/torture-results.md
	mv target/torture-results.md locks/TORTURE-RESULTS.md

lock-torture: deps-test ## let faults strike lock libraries in processes of their own: a round, or ARGS='storms --for 10m' or ARGS='table'
	cargo run --locked -p lock-torture -- $(or $(ARGS),storms)

seeds: ## make random runs until each planted mistake is found, and write the seeds and the numbers of runs to both seeds.txt
	cargo test --profile weather --locked -p planted-mistakes -p interleaved --test search --test find

bench-peers: deps-test ## measure the locks, and those of Curator, kazoo and zookeeper-client
	cargo run --release --locked -p bench --bin bench-peers -- $(ARGS)

bench-service: deps-bench ## compare the service with pgbench and a bare handler, and loadgen with wrk
	cargo build --release --locked --workspace --bins
	./target/release/bench-service $(ARGS)

coverage: ## measure how often the intervals of the reports, and of loadgen capacity at a real queue, cover the truth
	cargo run --release --locked -p stats --example coverage
	cargo build --release --locked -p loadgen
	cargo run --release --locked -p loadgen --example capacity_of_a_queue

# A run of eight blocks takes about a minute, and one of two builds two minutes.
RUNS ?= 12
PAIRS ?= 12
AGAIN := ./target/release/loadgen compare --strategies zk-naive,zk-mutex,zk-cohort,pg-conditional,pg-merge --trials 8 --quiet
TWICE := --demo-service A=target/release/demo-service --demo-service B=target/release/demo-service

# Status 1 is a false verdict, which is counted. Status 4 means that the machine is too slow to time anything.
false-verdicts: demo-programs ## measure the same programs RUNS times, and PAIRS times as two builds, and count how often they are called worse
	for run in $$(seq -w $(RUNS)); do \
		$(AGAIN) --out target/false-verdicts/runs/$$run || [ $$? -eq 4 ] || exit; \
	done
	for run in $$(seq -w $(PAIRS)); do \
		$(AGAIN) $(TWICE) --out target/false-verdicts/pairs/$$run || [ $$? -eq 1 ] || [ $$? -eq 4 ] || exit; \
	done
	cargo run --release --locked --no-default-features -p loadgen --example false_verdicts -- target/false-verdicts

# A check waits for books most of the time, so several shops are checked at once.
verdicts: RUNS = 30
verdicts: deps-test ## check shops that are known to be right or wrong, each RUNS times, and count false verdicts: RUNS=30
	cargo build --release --locked -p loadgen -p testbed
	python3 loadgen/tests/shops/verdicts.py --runs $(RUNS) --jobs 4 $(ARGS)

# The first run takes half a minute a shop on two cores, because it looks for a reproduction. Each further one takes 10 s.
shops: RUNS = 1
shops: deps-test ## check real shops from npm and PyPI, each RUNS times, and count false verdicts: RUNS=30; installs 900 MB below target/
	cargo build --release --locked -p loadgen -p testbed
	python3 loadgen/tests/shops/verdicts.py --group real --runs $(RUNS) $(ARGS)

bench-chart: ## copy the chart and the tables of the last make bench-peers to docs/, for the README
	@[ -f target/bench-peers.svg ] && [ -f target/bench-peers.md ] || \
		{ echo 'bench-chart: target/bench-peers.svg and .md not found; run make bench-peers without --out first' >&2; exit 3; }
	cp target/bench-peers.svg target/bench-peers.md docs/

SAMPLE := unguarded,zk-naive,zk-mutex,zk-cohort,pg-conditional,pg-merge

# The sandbox of Chromium does not run as root.
sample-report: deps-test demo-programs ## measure docs/sample-report.html, and take its picture docs/report.png
	./target/release/loadgen compare --strategies $(SAMPLE) --seed 1 --out target/sample-report
	cp target/sample-report/report.html docs/sample-report.html
	"$$(command -v chromium || command -v chromium-browser || command -v google-chrome || \
		echo '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome')" \
		--headless=new $$([ "$$(id -u)" -ne 0 ] || echo --no-sandbox) --disable-gpu --hide-scrollbars --log-level=3 \
		--window-size=1280,760 --screenshot=docs/report.png "file://$(CURDIR)/docs/sample-report.html"

cargo-deny:
	@cargo deny --version >/dev/null 2>&1 || \
		{ set -x; cargo install --debug --locked cargo-deny --version $(CARGO_DENY_VERSION); }

critcmp:
	@[ "$$(critcmp --version 2>/dev/null)" = 'critcmp $(CRITCMP_VERSION)' ] || \
		{ set -x; cargo install --debug --locked critcmp --version $(CRITCMP_VERSION); }

gungraun-runner:
	@[ "$$(gungraun-runner --version 2>/dev/null)" = 'gungraun-runner $(GUNGRAUN_VERSION)' ] || \
		{ set -x; cargo install --debug --locked gungraun-runner --version $(GUNGRAUN_VERSION); }

sqlx-cli:
	@cargo sqlx --version >/dev/null 2>&1 || \
		{ set -x; cargo install --locked sqlx-cli --version $(SQLX_CLI_VERSION) --no-default-features --features postgres; }

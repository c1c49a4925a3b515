# `demo`, `test` and `check` need Rust 1.91, a C compiler and make, nothing else. What needs more says so.

CARGO ?= cargo
ONNX_CAST = $(TARGET)/demo/onnx-cast
WHOLE = models/whole
# Where cargo builds, and where everything else here that is written and not kept goes.
TARGET = $${CARGO_TARGET_DIR:-target}
# A Python environment of TARGET's with what a file of requirements pins: $(call venv,NAME,FILE).
venv = python3 -m venv $(TARGET)/$(1)-venv && $(TARGET)/$(1)-venv/bin/pip install --quiet --requirement $(2)
# A module of scripts/ in that environment: $(call python,NAME) MODULE.
python = PYTHONPATH=scripts $(TARGET)/$(1)-venv/bin/python -P -m
EXAMPLES = against_stock plug_in bfloat16 nnef streaming

.PHONY: demo test test-cast check build examples wasm minimal-versions deny fmt clippy doc sanitize graphs snapshots \
	snapshots-changed models test-data quantizers operator-table lint-scripts operators operator-counts bench bench-survey bench-peers wheel test-python test-workflow \
	test-package newest semver show

# Compiled hardly optimised, in half the time of what the tests run. The packages are named together, since alone each has other
# features, and tract would be compiled for each.
demo:
	$(CARGO) build --locked --profile demo --bins --package tract-onnx-cast --package onnx-cast --package demo
	@echo; echo "# What stock tract makes of four models, beside what it makes of them with the plug-in"
	@$(TARGET)/demo/against_stock $(WHOLE)/int64_timestamps $(WHOLE)/qdq_softmax \
		$(WHOLE)/half_perceptron_BFLOAT16 $(WHOLE)/mlp_weights_INT4
	@$(MAKE) --no-print-directory show

# The demo's part that needs no more than the program: ONNX_CAST=onnx-cast for one that is installed.
show:
	@mkdir -p $(TARGET)
	@echo; echo "# A network whose numbers are bfloat16, which tract itself does not have, and one with int4 weights"
	@$(ONNX_CAST) run $(WHOLE)/half_perceptron_BFLOAT16/model.onnx
	@$(ONNX_CAST) run $(WHOLE)/mlp_weights_INT4/model.onnx
	@echo; echo "# A conversion to float16 whose every score is 0: which cast, and where it shows"
	@$(ONNX_CAST) compare $(WHOLE)/rms_norm_FLOAT $(WHOLE)/rms_norm_FLOAT16 --rtol 1e-2 --atol 1e-2 \
		--report $(TARGET)/demo.html; test $$? = 1
	@echo; echo "# The same as a page: $(TARGET)/demo.html"
	@echo; echo "# Every model that this project ships, against the reference's outputs"
	@$(ONNX_CAST) test --rtol 1e-3 --atol 1e-3 models > $(TARGET)/demo.txt; status=$$?; \
		tail -n 1 $(TARGET)/demo.txt; exit $$status

test:
	INSTA_UPDATE=no $(CARGO) test --locked

# Casts on several threads of tract's, which is compiled once more for it, and not to be fast; sanitize-thread has a unit test of it.
.PHONY: test-threads
THREADED = --locked --features tract-onnx-cast/multithread --config 'profile.dev.package.tract-onnx-cast.opt-level=1' \
	$(foreach crate,core hir nnef onnx onnx-opl transformers,--config 'profile.dev.package.tract-$(crate).opt-level=0')
test-threads:
	$(CARGO) test $(THREADED) --test plans -- threads
	$(CARGO) run --quiet $(THREADED) --example threads

# The conversions alone, without tract: compiled in seconds, for working on them.
test-cast:
	$(CARGO) test --locked -p cast-alone

check: fmt clippy test examples doc

build:
	$(CARGO) build --locked

# The examples in turn; a failed assertion in one fails this.
examples:
	for example in $(EXAMPLES); do $(CARGO) run --quiet --locked --example $$example || exit 1; done

fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --manifest-path fuzz/Cargo.toml --target-dir $(TARGET) -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps

# Every FLOAT to every type of at most 16 bits, at every level of this CPU, against the definition: 360 thousand million elements, by
# so many THREADS; ten minutes of one.
THREADS ?= 1
.PHONY: exhaustive
exhaustive:
	EXHAUSTIVE=$(THREADS) RUSTFLAGS="-Ccodegen-units=1 -Cllvm-args=-inline-threshold=3000" $(CARGO) test --locked --release \
		--target-dir $(TARGET)/exhaustive -p cast-alone every_float -- --nocapture

# The tests of the conversions alone on aarch64, s390x and wasm32, by qemu-user and node. What is not here is skipped with a word;
# CROSS=all makes that an error.
.PHONY: cross
cross:
	CROSS=$(CROSS) scripts/ci/cross.sh $(TARGET)

# The same in a newer Debian, which has all that it needs: a folder of 2 GB in TARGET. Needs root and debootstrap.
.PHONY: cross-debian
cross-debian:
	scripts/ci/debian.sh $(TARGET) make cross CROSS=all TARGET=target

# The conversions alone by an interpreter that sees every kind of undefined behaviour. Needs a nightly toolchain with miri.
.PHONY: miri
miri:
	MIRIFLAGS="-Zmiri-disable-isolation" $(CARGO) miri test --locked --target-dir $(TARGET)/miri -p cast-alone -- bounds rounding places

# Needs valgrind. Reads and writes beside the elements, and outputs that stay unwritten, up to AVX2: it knows no more.
.PHONY: valgrind
valgrind:
	CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --quiet --error-exitcode=1" $(CARGO) test --locked \
		--target x86_64-unknown-linux-gnu --target-dir $(TARGET)/valgrind -p cast-alone -- bounds rounding layout

# The sanitizers are unstable options of the compiler; each has a build of its own. Only x86-64 Linux. Leaks are tract's and the test
# harness's business.
SANITIZED = $(CARGO) test --locked --target x86_64-unknown-linux-gnu --no-default-features \
	--config 'profile.dev.package."*".opt-level=1'
BY_ADDRESS = RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0 $(SANITIZED) --target-dir $(TARGET)/sanitize
# These two see the standard library as well, which is compiled with them: its sources are needed, as rustup's component rust-src
# or in the folder RUST_LIBRARY, those of this very compiler.
RUST_LIBRARY ?= $(shell rustc --print sysroot)/lib/rustlib/src/rust/library
OF_SOURCES = __CARGO_TESTS_ONLY_SRC_ROOT=$(RUST_LIBRARY) RUSTC_BOOTSTRAP=1
NO_SOURCES = test -e $(RUST_LIBRARY)/Cargo.lock || { echo "$@: skipped: no sources in $(RUST_LIBRARY)"; exit 0; }
BY_THREAD = $(SANITIZED) -Zbuild-std --target-dir $(TARGET)/sanitize-thread --features multithread -p tract-onnx-cast
.PHONY: sanitize-memory sanitize-thread

# Reads and writes beside what they are of: the kernels at every level of this CPU.
sanitize:
	$(BY_ADDRESS) -p cast-alone
	$(BY_ADDRESS) -p tract-onnx-cast --lib --test plans
	$(BY_ADDRESS) -p tract-onnx-cast --test numerics -- exhaustive

# Reads of what nobody has written: of outputs above all.
sanitize-memory:
	@$(NO_SOURCES); set -x; $(OF_SOURCES) WITHOUT_STREAMS=1 RUSTFLAGS="-Zsanitizer=memory -Zsanitizer-memory-track-origins" \
		$(SANITIZED) -Zbuild-std --target-dir $(TARGET)/sanitize-memory -p cast-alone

# Two threads at one place: conversions in parts, and the memory that casts keep.
sanitize-thread:
	@$(NO_SOURCES); export $(OF_SOURCES) RUSTFLAGS=-Zsanitizer=thread; set -ex; \
		$(BY_THREAD) --lib -- tensor; $(BY_THREAD) --test plans -- thread

# More random graphs than the tests run, and others: GRAPHS=20000 SEED=1. GRAPHS_INTO=FOLDER keeps the smallest models that fail;
# tests/graphs/main.rs has more variables.
graphs:
	GRAPHS=$(or $(GRAPHS),20000) SEED=$(or $(SEED),1000000) $(CARGO) test --locked --test graphs

# More single operators than the tests run, and others: N=50000 SEED=1, and OPERATOR=Conv for one alone. OPERATORS_INTO=FOLDER keeps
# the models that fail; tests/operators/main.rs has more variables.
operators:
	OPERATORS=$(or $(N),50000) SEED=$(or $(SEED),1000000) $(CARGO) test --locked --test operators

# Time and memory for models of 1,000, 10,000 and 100,000 of everything; `make test` leaves the last one out.
.PHONY: growth
growth:
	GROWTH=100000 $(CARGO) test --locked --test growth -- --nocapture

# Every file below FILES, a folder: loading it takes at most ten seconds and 1 GiB, and the command line answers, or says in a line why
# it does not. Without FILES, some of what fuzzing has found.
.PHONY: hostile
hostile:
	$(if $(FILES),FILES=$(abspath $(FILES))) $(CARGO) test --locked --test growth -- --nocapture a_file_is_no_danger
	$(if $(FILES),FILES=$(abspath $(FILES))) $(CARGO) test --locked -p onnx-cast --test cli -- files_are_no_danger

# Needs python3 and valgrind, on x86-64 Linux. The same in instructions, which know no caches: COUNTED="1000 10000 100000".
.PHONY: growth-counted
growth-counted:
	python3 scripts/ci/growth.py $(COUNTED)

# Needs a C++ compiler. Fuzzes the targets of fuzz/ in turn, each for so many seconds: make fuzz SECONDS=600 TARGETS="casts load". What
# is found is in fuzz/ beside the corpus. Only Linux. The dependencies are those that the tests have built.
SECONDS ?= 60
TARGETS ?= casts load run tensor kernels text quantizers readers record
FUZZED = $(TARGET)/debug
GROWN = $(TARGET)/fuzz-corpus
# Small inputs for what takes elements, and no more of the sanitizer than finds reads and writes beside them: that is four times as fast.
FUZZ = case $$target in casts|load|run|record) most=8192 more=models;; readers|tensor) most=512 more=;; *) most=128 more=;; esac; RUST_BACKTRACE=0 \
	ASAN_OPTIONS=detect_leaks=0:max_malloc_fill_size=0:detect_stack_use_after_return=0:malloc_context_size=1:quarantine_size_mb=4 \
	$(FUZZED)/$$target -rss_limit_mb=4096 -timeout=60 -max_len=$$most -artifact_prefix=fuzz/$$target-
.PHONY: fuzz fuzz-build fuzz-merge
fuzz: fuzz-build
	for target in $(TARGETS); do \
		mkdir -p $(GROWN)/$$target; $(FUZZ) -max_total_time=$(SECONDS) $(GROWN)/$$target fuzz/corpus/$$target $$more || exit 1; \
	done

# What is instrumented for one sanitizer does not link with another's.
fuzz-build:
	@test "$$(cat $(TARGET)/fuzz-sanitizer 2>&1)" = "$${SANITIZER-address}" || { $(CARGO) clean --quiet --locked \
		--manifest-path fuzz/Cargo.toml --target-dir $(TARGET) -p onnx-cast-graph -p tract-onnx-cast -p onnx-cast-fuzz && \
		printf %s "$${SANITIZER-address}" > $(TARGET)/fuzz-sanitizer; }
	$(CARGO) build --locked --manifest-path fuzz/engine/Cargo.toml --target-dir $(TARGET)/fuzz-engine
	LIBFUZZER=$$(dirname $$(ls -t $$(realpath $(TARGET))/fuzz-engine/debug/build/*/out/libfuzzer.a | head -n 1)) \
		RUSTC_WRAPPER=$(CURDIR)/fuzz/wrap.sh $(CARGO) build --locked --manifest-path fuzz/Cargo.toml --target-dir $(TARGET)

# What `make fuzz` has reached beyond the corpus becomes part of it: the fewest and smallest inputs.
fuzz-merge:
	for target in $(TARGETS); do \
		mkdir -p $(GROWN)/$$target.new; $(FUZZ) -set_cover_merge=1 -use_counters=0 $(GROWN)/$$target.new fuzz/corpus/$$target $(GROWN)/$$target && \
			rm -r fuzz/corpus/$$target && mv $(GROWN)/$$target.new fuzz/corpus/$$target || exit 1; \
	done

# Needs cargo-cyclonedx. Every crate of the library and of the command line on any system, with version, licences and checksum.
.PHONY: sbom
sbom:
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(CARGO) cyclonedx --quiet --format json --spec-version 1.5 --target all
	rm tests/alone/cast-alone.cdx.json tests/tools/test-tools.cdx.json examples/demo/demo.cdx.json
	mkdir -p $(TARGET)/sbom && mv tract-onnx-cast.cdx.json cli/onnx-cast.cdx.json $(TARGET)/sbom

# Writes the snapshots that are missing; one that differs still fails.
snapshots:
	INSTA_UPDATE=unseen $(CARGO) test --locked --test models --test numerics -- golden algebra

# Accepts changed snapshots. Read the diff before you commit it.
snapshots-changed:
	INSTA_UPDATE=always $(CARGO) test --locked --test models --test numerics -- golden algebra

# Writes the table of optimised graphs, stock tract's against ours, for this repository's models and those below
# ONNX_CAST_MODELS, where that is set. Without it, their rows are left out.
operator-counts:
	ONNX_CAST_WRITE_OPERATORS=1 $(CARGO) test --locked --test models -- operators

# Needs python3. Makes models/ anew with the versions that the scripts pin; nothing changes unless a script or a version did.
models:
	$(call venv,models,scripts/requirements.txt)
	$(call python,models) models.make_models

# Needs python3. Makes the vectors, limits and node tests of tests/data anew; scripts/README.md says what is what. The digests of
# long inputs take an hour: VECTORS=--keep-sweeps leaves them as they are.
test-data:
	$(call venv,models,scripts/requirements.txt)
	$(call python,models) vectors.make_vectors $(VECTORS)
	$(call python,models) vectors.quantizers
	$(call python,models) vectors.make_limits
	$(call python,models) vectors.make_node_tests

# Needs python3 and a quarter of an hour. As the tests of quantisers, with 20,000 elements of each combination of types.
quantizers:
	$(call venv,models,scripts/requirements.txt)
	$(call python,models) vectors.quantizers --scales 2000 --archive $$(realpath $(TARGET))/quantizers.zip
	ONNX_CAST_QUANTIZERS=$$(realpath $(TARGET))/quantizers.zip $(CARGO) test --locked --test numerics linear_is_exact

# Needs python3. Checks the scripts and their format; `make check` does not, since it needs cargo and make only.
lint-scripts:
	$(call venv,lint,scripts/requirements-lint.txt)
	$(TARGET)/lint-venv/bin/ruff check scripts python
	$(TARGET)/lint-venv/bin/ruff format --check scripts python

# Needs python3. Checks the workflows and the action: their schemas, and what is unsafe in them.
.PHONY: lint-workflows
lint-workflows:
	$(call venv,lint,scripts/requirements-lint.txt)
	$(TARGET)/lint-venv/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(TARGET)/lint-venv/bin/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(TARGET)/lint-venv/bin/zizmor --offline --quiet .

# Writes docs/operators.md anew from the tables in src/onnx/operators.
.PHONY: operator-page
operator-page:
	ONNX_CAST_WRITE_OPERATOR_PAGE=1 $(CARGO) test --locked --lib -p tract-onnx-cast -- the_page

# Needs python3. ONNX's own backend tests, 2,000 models, through the program; none may be worse than in tests/data/backend.tsv.
# BACKEND=--write writes that anew.
.PHONY: test-backend
test-backend:
	$(call venv,models,scripts/requirements.txt)
	$(CARGO) build --locked -p onnx-cast
	$(call python,models) backend.suite $(TARGET)/debug/onnx-cast $(TARGET)/backend $(BACKEND)

# Needs python3. What is generated of inputs that nobody gives, beside what is saved with the models of this repository, and with
# those below MODELS; and conversions with planted faults, none of which may pass without inputs, beside sound ones.
.PHONY: test-inputs
test-inputs:
	$(call venv,inputs,scripts/requirements-inputs.txt)
	$(CARGO) build --locked -p onnx-cast
	$(call python,inputs) inputs.table $(TARGET)/debug/onnx-cast models $(MODELS)
	$(call python,inputs) inputs.planted $(TARGET)/debug/onnx-cast

# Needs python3. Makes the tables of src/onnx/operators anew from the packages of the versions that the scripts pin.
operator-table:
	$(call venv,models,scripts/requirements.txt)
	$(call python,models) operators.make_operator_table

# Ours through a tract plan, tract's own cast and memcpy, in one run; the table of ratios is at the end.
bench:
	$(CARGO) bench --locked --bench casts

# Every pair, quickly: at each level of this CPU against memcpy, and against tract's own cast of few elements.
bench-survey:
	$(CARGO) bench --locked --bench survey -- bandwidth
	$(CARGO) bench --locked --bench survey -- stock

# Needs python3 and network access. The verdicts of compare on sound conversions of small networks, and on such with a fault planted.
.PHONY: verdicts
verdicts:
	$(CARGO) build --locked -p onnx-cast
	$(call venv,verdicts,scripts/verdicts/requirements.txt)
	$(call python,verdicts) verdicts.plant --program $(TARGET)/debug/onnx-cast

# Needs python3 and network access. Whether keep's lists of nodes to leave unquantised hold in ONNX Runtime: TO=INT8, UINT8, FLOAT8E4M3FN
# or INT4.
.PHONY: keep-lists
TO ?= INT8
keep-lists:
	$(CARGO) build --locked -p onnx-cast
	$(call venv,verdicts,scripts/verdicts/requirements.txt)
	$(call python,verdicts) verdicts.lists --program $(TARGET)/debug/onnx-cast --to $(TO)

# The conversions alone, without tract, as they are on this CPU at each level: ELEMENTS=16384. In node with and without vectors, which
# needs the target wasm32-wasip1. On arm64 by instructions per element and llvm-mca's cycles: scripts/bench/instructions.py says what
# that needs.
.PHONY: bench-kernels bench-wasm bench-arm64
ELEMENTS ?= 1048576
KERNELS = --locked --release -p cast-alone --example kernels
bench-kernels:
	$(CARGO) run $(KERNELS) -- time $(ELEMENTS)

# Needs python3. These at a LEVEL of this CPU (0 is the baseline, 1 is AVX2) against the same peers.
.PHONY: bench-level
LEVEL ?= 1
bench-level:
	$(call venv,bench,scripts/requirements-bench.txt)
	$(CARGO) build $(KERNELS)
	$(TARGET)/bench-venv/bin/python scripts/bench/bench_peers.py \
		"$(TARGET)/release/examples/kernels serve $(LEVEL)" $(TARGET)/peers-$(LEVEL).md $(PEERS)

bench-wasm:
	for feature in - +; do \
		export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS=-Ctarget-feature=$${feature}simd128; \
		CARGO_TARGET_WASM32_WASIP1_RUNNER="node $(CURDIR)/scripts/ci/wasi.mjs" \
			$(CARGO) run $(KERNELS) --target wasm32-wasip1 -- time 16384 || exit 1; \
	done

bench-arm64:
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
		$(CARGO) build $(KERNELS) --target aarch64-unknown-linux-gnu
	python3 scripts/bench/instructions.py $(TARGET)/aarch64-unknown-linux-gnu/release/examples/kernels

# Needs python3 and a C compiler. The same against ONNX Runtime, numpy with ml_dtypes, and PyTorch, taking turns, and few elements against
# NumKong, `half` and `float8`. PEERS="--all 16384" is for every pair that they have, of one size.
bench-peers:
	$(call venv,bench,scripts/requirements-bench.txt)
	$(CARGO) build --locked --release --bench serve
	$(TARGET)/bench-venv/bin/python scripts/bench/bench_peers.py \
		$$(ls -t $(TARGET)/release/deps/serve-* | grep -v '\.d$$' | head -n 1) $(TARGET)/peers.md $(PEERS)
	$(CARGO) run --locked --release --manifest-path scripts/bench/few/Cargo.toml --target-dir $(TARGET)/few

# Needs python3. QuantizeLinear and DequantizeLinear against ONNX Runtime, taking turns.
.PHONY: bench-quantizers
bench-quantizers:
	$(call venv,bench,scripts/requirements-bench.txt)
	$(CARGO) build --locked --release --bench serve
	$(TARGET)/bench-venv/bin/python scripts/bench/bench_quantizers.py \
		$$(ls -t $(TARGET)/release/deps/serve-* | grep -v '\.d$$' | head -n 1) $(TARGET)/quantizers.md

.PHONY: bench-products
bench-products:
	$(call venv,bench,scripts/requirements-bench.txt)
	$(CARGO) build --locked --release --bench serve
	$(TARGET)/bench-venv/bin/python scripts/bench/bench_products.py \
		$$(ls -t $(TARGET)/release/deps/serve-* | grep -v '\.d$$' | head -n 1) $(TARGET)/products.md

# Needs python3. Language models of SIZE (small, medium, large: 0.1, 0.5, 1.1 billion weights), made by script, run and compared beside
# ONNX Runtime: seconds and memory.
.PHONY: bench-large
bench-large:
	$(call venv,bench,scripts/requirements-bench.txt)
	$(CARGO) build --locked --release -p onnx-cast
	$(TARGET)/bench-venv/bin/python scripts/bench/bench_large.py \
		$(TARGET)/release/onnx-cast $(TARGET)/large $(SIZE)

# Needs python3. Faults planted in the models below MODELS, N pairs, each reduced: what is left, runs, seconds.
.PHONY: reduce-planted reduce-pairs campaign found reduce-checked
reduce-planted:
	$(call venv,campaign,scripts/requirements-campaign.txt)
	$(CARGO) build --locked --release -p onnx-cast
	$(call python,campaign) campaign.planted $(TARGET)/release/onnx-cast $(or $(MODELS),models) --pairs $(or $(N),100)

# Needs python3 and network access. Faults planted in conversions of small networks, each reduced without a tolerance.
reduce-pairs:
	$(CARGO) build --locked -p onnx-cast
	$(call venv,verdicts,scripts/verdicts/requirements.txt)
	$(call python,verdicts) campaign.pairs $(TARGET)/debug/onnx-cast

# Needs python3. Faults of ONNX Runtime and of tools that rewrite models, on GRAPHS random graphs from SEED on and on onnx's node tests
# whose names begin with NODES, each reduced into TARGET/campaign.
campaign:
	$(call venv,campaign,scripts/requirements-campaign.txt)
	$(CARGO) build --locked --release -p onnx-cast
	$(call python,campaign) campaign.campaign $(TARGET)/release/onnx-cast $(TARGET)/campaign \
		--graphs $(or $(GRAPHS),1000) --seed $(or $(SEED),0) $(if $(NODES),--nodes $(NODES)) --most 1

# Needs python3. What the models of models/found show with the pinned tools (docs/found.md).
found:
	$(call venv,campaign,scripts/requirements-campaign.txt)
	$(call python,campaign) campaign.replay models/found

# Needs python3. The faults of models/found inside larger graphs, reduced by a command around the tools.
reduce-checked:
	$(call venv,campaign,scripts/requirements-campaign.txt)
	$(CARGO) build --locked --release -p onnx-cast
	$(call python,campaign) campaign.checked $(TARGET)/release/onnx-cast models/found

# The library where there are no threads, files or processes; needs the target `wasm32-unknown-unknown`.
wasm:
	$(CARGO) build --locked -p tract-onnx-cast --lib --no-default-features --target wasm32-unknown-unknown

# The oldest dependencies that Cargo.toml allows must do; in a folder of its own, so that Cargo.lock stays.
minimal-versions:
	rm -rf $(TARGET)/minimal && mkdir -p $(TARGET)/minimal
	cp -r Cargo.toml README.md docs cli src benches examples tests $(TARGET)/minimal
	cd $(TARGET)/minimal && RUSTC_BOOTSTRAP=1 $(CARGO) update -Z direct-minimal-versions && \
		$(CARGO) check --all-targets --target-dir build

# Needs python3. The package for pip: the program and the module in python/, by pyproject.toml. Its name says where it runs: this kind of
# system; the release workflow makes those for any Linux of glibc 2.28 or later.
WHEEL_PROFILE ?= release
wheel:
	$(call venv,wheel,scripts/requirements-wheel.txt)
	rm -rf $(TARGET)/wheels
	$(TARGET)/wheel-venv/bin/maturin build --quiet --profile $(WHEEL_PROFILE) --compatibility linux --out $(TARGET)/wheels
	@ls -l $(TARGET)/wheels

# Needs python3. The wheel of the program that the tests have built, installed into a fresh environment, and tested there.
test-python:
	$(MAKE) wheel WHEEL_PROFILE=dev
	scripts/ci/test_wheel.sh $(TARGET)/wheels $(TARGET)/python-venv

# Needs chromium. The pictures of pages in docs/images; the tests say when pages have changed since.
.PHONY: pictures
pictures:
	PICTURES=1 $(CARGO) test --locked -p onnx-cast --test cli -- pictures

# Needs python3. The workflow that docs/checking-a-conversion.md documents, step by step on a fresh clone, with the program built here.
test-workflow:
	$(call venv,ci,scripts/requirements-ci.txt)
	$(CARGO) build --locked
	scripts/ci/test_workflow.sh $(TARGET) $(TARGET)/ci-venv/bin/python

# Needs python3. What would be published, and a new crate that depends on it. BUILD=build builds that, rather than checking it.
test-package:
	BUILD=$(or $(BUILD),check) scripts/ci/test_package.sh $(TARGET)

# The newest dependencies that Cargo.toml allows, without the lock file; in a folder of its own, so that Cargo.lock stays.
newest:
	rm -rf $(TARGET)/newest && mkdir -p $(TARGET)/newest
	git archive HEAD | tar -x -C $(TARGET)/newest
	cd $(TARGET)/newest && rm Cargo.lock && $(CARGO) update && INSTA_UPDATE=no $(CARGO) test --target-dir build

# Needs cargo-semver-checks, which it installs. What changed of the library since the last release; nothing before the first.
semver:
	@tag=$$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null); \
	if [ -z "$$tag" ]; then echo "there is no release to compare with"; else \
		cargo install --locked cargo-semver-checks && cargo semver-checks --package tract-onnx-cast --baseline-rev "$$tag"; fi

# Needs cargo-deny. Advisories, licences, sources and duplicates of the dependencies.
deny:
	cargo deny check

# Needs cargo-audit. Advisories, of what fuzzing needs as well.
.PHONY: audit
audit:
	cargo audit --deny warnings
	cargo audit --deny warnings --file fuzz/Cargo.lock
	cargo audit --deny warnings --file fuzz/engine/Cargo.lock

# Needs python3. What docs/dependencies.md says of the crates, and that workflows name actions by their hashes.
.PHONY: test-dependencies
test-dependencies:
	python3 scripts/ci/dependencies.py
	! grep -rn 'uses:' .github/workflows action.yml | grep -vE 'uses: (\./|[^ ]+@[0-9a-f]{40} # v)'

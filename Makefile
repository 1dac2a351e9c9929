# The two commands of the README are `make demo` and `make test`; both work on a fresh machine with Python >= 3.10.
PYTHON ?= python3
BIN := .venv/bin
# The tests start hundreds of Pythons: where bytecode may not be kept, each of them compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON_HERE = $(shell $(BIN)/python -c pass 2>/dev/null && echo $(BIN)/python || echo $(PYTHON))

.PHONY: demo test check gpu lab lab-kubernetes lab-table lint wheel bootcheck.pyz bench docs docs-site completion clean

demo: .venv/installed
	$(BIN)/nodegate demo

# Whole fleets over sshd and systemd, simulated fleets by the hundred, installations from packages: `make lab` runs them,
# and of the others each test that is marked as long.
LONG := tests/endtoend tests/long
ROOMS := tests $(addprefix --ignore ,$(LONG)) --dist loadfile

# Three workers for two cores: a third of the time of these tests is waiting for what hangs.
test: .venv/test-installed
	tests/system_packages.sh
	$(MAKE) lint
	$(BIN)/python -m pytest $(ROOMS) -n 3 -m "not long"

# What a change breaks first, within a minute on two idle cores from the second call on: style, types, checks, knowledge.
check: lint
	$(BIN)/python -m pytest tests/checks tests/causes/test_conditions.py tests/knowledge -q -n 2 --dist worksteal

# The long tests; nodes with systemd and Slurm; virtual machines with real perftest over soft-RoCE. Needs root, no hardware.
# Two workers, so two sets of guests at a time (lab/tests/conftest.py): with more on two cores, they poll more than they work.
lab: .venv/test-installed
	tests/system_packages.sh
	tests/system_packages.sh lab
	$(BIN)/python -m pytest tests/endtoend -n 2
	$(BIN)/python -m pytest tests/long -n 2 --dist loadfile
	$(BIN)/python -m pytest $(ROOMS) -n 3 -m long
	$(BIN)/python -m lab build --suite trixie --suite bookworm
	$(BIN)/python -m pytest lab/tests --ignore lab/tests/kubernetes -n 2 --durations 10

# Kubernetes' own programs, built from their Go modules where the cache has none: Go >= 1.24 and root, no cluster.
lab-kubernetes: .venv/test-installed
	command -v go >/dev/null || tests/system_packages.sh golang-go
	tests/system_packages.sh busybox-static containerd runc containernetworking-plugins iproute2 openssl
	$(BIN)/python -m lab.kubernetes.parts
	$(BIN)/python -m pytest lab/tests/kubernetes --durations 5

# What nodegate runs on GPUs, on this machine's own: python3 and NVIDIA's driver are enough, no network, no root. 3 minutes;
# FULL=1: 15. KEEP=1 keeps what was printed in lab/recordings, for the tests of the parsers. Without a GPU it says so.
gpu:
	@PYTHONDONTWRITEBYTECODE=1 $(PYTHON_HERE) -m lab gpu $(if $(FULL),--full) $(if $(KEEP),--keep) $(GPU_ARGS)

# docs/evidence/injected-faults.md is what the tests of the lab have seen; a test fails when it lacks one of them
lab-table: .venv/test-installed
	rm -f reports/lab-table.jsonl
	NODEGATE_LAB_TABLE=$(CURDIR)/reports/lab-table.jsonl $(BIN)/python -m pytest tests/endtoend lab/tests -q
	$(BIN)/python -m lab table reports/lab-table.jsonl >docs/evidence/injected-faults.md

lint: .venv/test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# nodegate beside its peers on this machine, and docs/evidence/scale.md from it; within an hour on two idle cores, and what was
# ended goes on where it was. As root it installs the peers' Debian packages. NHC=FOLDER: LBNL NHC from its source
bench: .venv/test-installed
	tests/system_packages.sh
	$(BIN)/python -m bench.side_by_side $(if $(NHC),--nhc $(NHC)) $(BENCH_ARGS)

# docs/reference/coverage.md is written from the docstrings of the checks,
# the JSON Schemas from the records, tests/golden/api.txt from nodegate.api
docs: .venv/installed
	PYTHONPATH=tests $(BIN)/python -m support.coverage_page docs/reference/coverage.md
	PYTHONPATH=tests $(BIN)/python -m support.claims_page docs/reference/claims.md
	PYTHONPATH=tests $(BIN)/python -m support.policies_page docs/guide/policies.md
	PYTHONPATH=tests $(BIN)/python -m support.schemas
	PYTHONPATH=tests $(BIN)/python -m support.api_names

# completion of `nodegate` for bash and zsh, in dist/
completion: .venv/test-installed
	mkdir -p dist
	PYTHONPATH=tests $(BIN)/python -m support.completion bash >dist/nodegate.bash
	PYTHONPATH=tests $(BIN)/python -m support.completion zsh >dist/_nodegate

# the pages of docs/ as a site in dist/site; links inside it are checked
docs-site: .venv/test-installed
	$(BIN)/python -m mkdocs build --strict --quiet --site-dir dist/site

wheel: .venv/test-installed
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# nodegate bootcheck and nodegate hook for compute nodes, in one file that needs Python >= 3.10 and no package
bootcheck.pyz: .venv/installed
	$(BIN)/python deploy/one_file/build.py dist/bootcheck.pyz

.venv/bin/python:
	$(PYTHON) -m venv .venv || { tests/system_packages.sh python3-venv && $(PYTHON) -m venv --clear .venv; }

# also in an environment that somebody made himself, with a pip that knows no groups yet
.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/test-installed: pyproject.toml .venv/installed
	$(BIN)/python -m pip install --quiet --group test --group lint
	touch $@

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis

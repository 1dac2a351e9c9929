# The two commands of the README are `make demo` and `make test`; both work on a fresh machine with Python >= 3.10.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lab lint wheel docs clean

demo: .venv/installed
	$(BIN)/nodegate demo

test: .venv/test-installed
	tests/system_packages.sh
	$(MAKE) lint
	$(BIN)/python -m pytest tests --ignore tests/endtoend -n 2 --dist loadfile
	$(BIN)/python -m pytest tests/endtoend

# Virtual machines with real perftest over soft-RoCE: needs root, some minutes, and no special hardware
lab: .venv/test-installed
	tests/system_packages.sh busybox-static cpio e2fsprogs iproute2 mmdebstrap openssh-client qemu-system-x86 qemu-utils xz-utils zstd
	$(BIN)/python -m lab build
	$(BIN)/python -m pytest lab/tests

lint: .venv/test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# docs/coverage.md is written from the checks' own docstrings; a test fails when it is stale
docs: .venv/installed
	$(BIN)/python -m nodegate.coverage docs/coverage.md

wheel: .venv/test-installed
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

.venv/bin/python:
	$(PYTHON) -m venv .venv || { tests/system_packages.sh python3-venv && $(PYTHON) -m venv --clear .venv; }
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

.venv/installed: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/test-installed: pyproject.toml .venv/installed
	$(BIN)/python -m pip install --quiet --group test --group lint
	touch $@

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Each target sets up everything it needs: Python 3.11 or newer and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint bench docs paper clean

demo: $(READY)
	$(BIN)/holdfast demo

test: $(READY) lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/bound_speed.py
	$(BIN)/python benchmarks/tightness.py
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/growth.py

# Regenerates docs/commands.md, which a test compares with the commands themselves.
docs: $(READY)
	$(BIN)/python docs/write_commands.py

# Draws the paper's figures again from the committed runs, without a GPU. CIFAR10=... adds the picture grids.
PAPER_RUNS = $(sort $(dir $(wildcard experiments/paper/runs/*/run.json)))
HUMAN ?= ../shared/data/cifar10h/cifar10h-probs.npy
paper: $(READY)
	@ls experiments/paper/runs/*/run.json > /dev/null 2>&1 || { echo "no stored runs in experiments/paper/runs yet; make them with: python -m experiments.paper.reproduce --data CIFAR10"; exit 1; }
	$(BIN)/python -m experiments.paper.figures --runs $(PAPER_RUNS) $(if $(CIFAR10),--data $(CIFAR10))
	$(if $(wildcard $(HUMAN)),$(BIN)/python -m experiments.paper.human --runs $(PAPER_RUNS) --human $(HUMAN),@echo "no $(HUMAN): the human study is left as it is")

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdfast needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

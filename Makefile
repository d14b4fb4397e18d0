# Each target sets up everything it needs: Python 3.11 or newer and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready

.PHONY: demo test lint browser bench docs paper install-check lock clean

# The developers' environment does for the demo; without it, torch is installed and their tools are not.
demo: $(or $(wildcard $(READY)),$(DEMO_READY))
	$(BIN)/holdfast demo

test: $(READY) lint browser
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

# The report is tested in a real browser; where there is none and none can be installed, those tests say so and are skipped.
browser:
	@for name in chromium chromium-browser google-chrome; do command -v $$name > /dev/null && exit 0; done; \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium > /dev/null; } || \
	  echo "no Chromium here, and it could not be installed: tests in the browser will be skipped"

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
	@ls experiments/paper/runs/*/run.json > /dev/null 2>&1 || { echo "no stored runs in experiments/paper/runs yet; make them with: python -m experiments.reproduce --data CIFAR10"; exit 1; }
	$(BIN)/python -m experiments.paper.figures --runs $(PAPER_RUNS) $(if $(CIFAR10),--data $(CIFAR10))
	$(if $(wildcard $(HUMAN)),$(BIN)/python -m experiments.paper.human --runs $(PAPER_RUNS) --human $(HUMAN),@echo "no $(HUMAN): the human study is left as it is")

# Wheel and sdist, in empty environments: without torch, and with it.
install-check:
	$(PYTHON) tools/check_install.py

# What the service's image installs, with hashes; torch is left to the index of the build that is wanted. Needs uv.
lock:
	echo torch | uv pip compile pyproject.toml --extra serve --extra sign --universal --python-version 3.11 --excludes - \
	  --constraint constraints.txt --generate-hashes --no-annotate --upgrade --quiet \
	  --custom-compile-command 'make lock' --output-file requirements.lock

define install
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdfast needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(1)]'
	touch $@
endef

$(READY): pyproject.toml constraints.txt
	$(call install,dev)

$(DEMO_READY): pyproject.toml constraints.txt
	$(call install,torch)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# Two commands: `make sweep` runs the main job on the embedded model, `make test` the linters, the types and the fast tests.
# `make sweep` installs what a study needs into .venv, and each command that needs more adds the rest (`make install`).
# `make test-all` runs all tests and checks the shapes of tensors.
# `make docs` builds the documentation into site/. `make oldest` tests with the oldest transformers that is allowed, and
# `make videos` tests the videos of saved checkpoints with torchvision.
# On a machine with its own CUDA torch: `make TORCH=system test` uses that one instead of the pinned CPU build.

PYTHON ?= python3
TORCH  ?= pinned
JOBS   ?= auto
BIN    := .venv/bin
RUN    := .venv/.run-$(TORCH)
ALL    := .venv/.all-$(TORCH)
EXTRAS := gate,export,endpoints,mlflow,ray,serve,video,docs,dev
PINS   := pyproject.toml trio_core/pyproject.toml constraints.txt
PIP    := $(BIN)/python -m pip install --quiet --constraint .venv/constraints.txt

# The tests start hundreds of processes: Python keeps what it compiled, whatever the shell says.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install sweep test tests test-all oldest videos check bench docs format clean

install: $(ALL)

sweep: $(RUN)
	$(BIN)/trio-profile sweep --out runs/pocket

# The linters run beside the tests.
test: $(ALL)
	$(MAKE) --jobs=2 --no-print-directory check tests

tests: $(ALL)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" --ignore tests/benchmarks

test-all: check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --shapes -n $(JOBS) --dist worksteal

oldest: .venv-oldest/core/.installed .venv-oldest/run/.installed
	OMP_NUM_THREADS=1 .venv-oldest/core/bin/python -m pytest tests/core -n $(JOBS) --dist worksteal
	OMP_NUM_THREADS=1 .venv-oldest/run/bin/python -m pytest tests/core/test_docs.py $(addprefix tests/profile/,cost inputs profilers) -n $(JOBS) --dist worksteal

videos: .venv-videos/.installed
	OMP_NUM_THREADS=1 .venv-videos/bin/python -m pytest tests/profile/inputs/test_videos.py

check: $(ALL)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright

bench: $(ALL)
	mkdir -p runs
	OMP_WAIT_POLICY=PASSIVE GOMP_SPINCOUNT=2000 $(BIN)/python -m pytest tests/benchmarks --benchmark-only --benchmark-json=runs/bench.json -o addopts="-q --import-mode=importlib"

docs: $(ALL)
	$(BIN)/python scripts/site

format: $(ALL)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv .venv-oldest .venv-videos runs site .cache

# torch first and by its pin: whatever needs "torch" then finds it, and downloads no other build.
.venv/.run-pinned: $(PINS)
	$(PYTHON) -m venv .venv
	cp constraints.txt .venv/constraints.txt
	$(PIP) --upgrade pip setuptools setuptools-scm
	$(PIP) torch
	$(PIP) --no-build-isolation --editable ./trio_core --editable ".[run]"
	touch $@

.venv/.run-system: $(PINS)
	$(PYTHON) -m venv --system-site-packages .venv
	grep -v '^torch==' constraints.txt > .venv/constraints.txt
	$(PIP) --upgrade pip setuptools setuptools-scm
	$(PIP) --no-build-isolation --editable ./trio_core --editable ".[run]"
	touch $@

$(ALL): $(RUN)
	$(PIP) --no-build-isolation --editable ./trio_core --editable ".[run,$(EXTRAS)]"
	touch $@

# torchvision does not import beside the pinned torch, so both come unpinned from the index.
.venv-videos/.installed: $(PINS)
	$(PYTHON) -m venv $(@D)
	grep -v '^torch==' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --upgrade --constraint $(@D)/constraints.txt pip setuptools setuptools-scm
	$(@D)/bin/python -m pip install --quiet --constraint $(@D)/constraints.txt torch torchvision
	$(@D)/bin/python -m pip install --quiet --constraint $(@D)/constraints.txt --no-build-isolation --editable ./trio_core --editable ".[run,video,dev]"
	touch $@

# The same torch and tools, and the oldest transformers that a distribution allows: trio-core, trio-profile[run].
.venv-oldest/core/.installed: ASKS := trio_core/pyproject.toml
.venv-oldest/core/.installed: EXTRAS := dev
.venv-oldest/core/.installed: MORE := fvcore nvidia-ml-py    # of the extra `run`, which asks for a newer transformers
.venv-oldest/run/.installed: ASKS := pyproject.toml
.venv-oldest/run/.installed: EXTRAS := run,dev
.venv-oldest/%/.installed: pyproject.toml trio_core/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(@D)
	grep -Ev '^(transformers|huggingface_hub)==' constraints.txt > $(@D)/constraints.txt
	sed -n 's/.*"transformers>=\([0-9.]*\).*/transformers==\1/p' $(ASKS) | head -1 >> $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --upgrade --constraint $(@D)/constraints.txt pip setuptools setuptools-scm
	$(@D)/bin/python -m pip install --quiet --constraint $(@D)/constraints.txt torch
	$(@D)/bin/python -m pip install --quiet --constraint $(@D)/constraints.txt --no-build-isolation --editable ./trio_core --editable ".[$(EXTRAS)]" $(MORE)
	touch $@

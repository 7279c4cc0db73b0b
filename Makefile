# setup: make .venv for changes. run: start the node (installs what running needs, no tools). demo: play the tutorial. test-all, lint: what CI runs; test skips what needs a browser and other heavy peers, and the tests marked heavy. bench: the figures.
# durations: test, and write down how long each file took, by which the longest go first.
# coverage: what no unit test and no retained seed of the simulation runs, by actor and folder; WHOLE=1 runs all tests, with their
#   processes, FOLDER=actors/pleg lists lines as well.
# pictures: draw those of the documentation from a running plane.
# fuzz: try expressions of CEL; make fuzz SECONDS=600 SEED=7 JOBS=2.
# simulate: play whole planes on virtual time with faults; make simulate SEED=7 SECONDS=60 PROFILE=control TRACE=1 replays a run,
#   SEEDS=1000 JOBS=2 is a long one. mutants: let it find mistakes made on purpose; MUTANT=ack,gap takes some of them.
# crash: kill everything, again and again; make crash SEED=7 ROUNDS=20 replays a run, or goes on for longer.
VENV := .venv
PY := $(VENV)/bin/python
RUNS := $(VENV)/.runs
STAMP := $(VENV)/.ready
REWRITTEN := $(VENV)/.rewritten
# Many tests wait: eight share two processors well, five those of test-all. Long files go first (tests/durations.txt), so that no worker ends alone.
WORKERS := 8
LONG_FIRST := --dist loadfile --no-loadscope-reorder
SEED := 0
# Where the environment forbids Python to keep bytecode, every process would compile every module it imports.
# (An empty PYTHONDONTWRITEBYTECODE permits it: every worker of the tests collects all of them.)
CODE := protocols actors supervisor tests
NOT_CODE := /test_
COMPILE = @$(PY) -m compileall -q -j 0 -x $(NOT_CODE) $(CODE) || echo "bytecode cannot be kept here: processes start slower"
ALL_TESTS := tests/crash tests/integration tests/simulation tests/unit
ROUNDS := 1
SECONDS := 60
JOBS := 1
# Only what was given to make: a variable of the environment, or one set above, is none of the simulation's.
SIMULATION := PROFILE SEED SEEDS SECONDS BUDGET JOBS
GIVEN = $(foreach key,$(1),$(if $(filter command,$(origin $(key))),'$(key)=$($(key))'))

.PHONY: setup run demo test test-all durations coverage unit crash simulate mutants fuzz bench lint docs pictures format clean compiled compiled-run

setup: compiled

run: compiled-run
	@$(VENV)/bin/nodeplane up

demo: compiled-run
	@$(PY) examples/demo.py

test-all: export NODEPLANE_ALL := 1
test-all: WORKERS := 5
test test-all: compiled $(REWRITTEN)
	@sh tests/setup.sh $(if $(filter test-all,$@),all)
	@PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n $(WORKERS) $(LONG_FIRST) $(ALL_TESTS)

durations:
	@NODEPLANE_DURATIONS=1 $(MAKE) test

coverage: compiled
	@rm -rf .coverage && mkdir .coverage
	@PYTHONDONTWRITEBYTECODE= $(PY) -m coverage run -m pytest -n 2 $(LONG_FIRST) $(if $(WHOLE),$(ALL_TESTS),tests/unit)
	@PYTHONHASHSEED=0 $(PY) -m coverage run -m tests.simulation.run SEEDS=1
	@$(PY) -m tests.support.coverage_table $(FOLDER)

unit: compiled
	@PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n 2 $(LONG_FIRST) tests/unit

crash: compiled
	@NODEPLANE_CRASH_SEED=$(SEED) NODEPLANE_CRASH_ROUNDS=$(ROUNDS) $(PY) -m pytest -n 3 $(LONG_FIRST) tests/crash

simulate: compiled
	@PYTHONHASHSEED=0 $(PY) -m tests.simulation.run $(call GIVEN,$(SIMULATION) TRACE)

mutants: compiled
	@PYTHONHASHSEED=0 $(PY) -m tests.simulation.mutants $(call GIVEN,$(filter-out BUDGET,$(SIMULATION)) MUTANT)

fuzz: compiled
	@$(PY) -m tests.fuzz.run $(SECONDS) $(SEED) $(JOBS)

bench: compiled
	@$(VENV)/bin/nodeplane bench

lint: $(STAMP)
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy && \
		$(PY) -m protocols.wire.generate --check && $(PY) -m protocols.kinds.generate --check && $(PY) -m supervisor.cli.reference --check && \
		$(PY) -m tests.conformance.page --check && \
		$(PY) -m deploy.monitoring.generate --check && \
		$(PY) -m pytest -q tests/unit/house/test_imports.py

docs: $(STAMP)
	@$(PY) -m supervisor.cli.reference && $(PY) -m tests.conformance.page && $(PY) -m deploy.monitoring.generate

pictures: $(STAMP)
	@$(PY) -m tests.bench.session_picture && $(PY) -m tests.bench.trace_picture && \
		$(PY) -m tests.bench.console_pictures

format: $(STAMP)
	@$(VENV)/bin/ruff check --fix-only -q . ; $(VENV)/bin/ruff format -q .

compiled: $(STAMP)
	$(COMPILE)

compiled-run: $(RUNS)
	$(COMPILE)

# pytest compiles tests with checks of its own; in a new clone all five processes would compile all of them.
$(REWRITTEN): $(STAMP)
	@for half in tests/unit "tests/crash tests/integration tests/simulation"; do \
		PYTHONDONTWRITEBYTECODE= $(PY) -m pytest --collect-only -qq $$half >/dev/null & done; wait
	@touch $(REWRITTEN)

$(RUNS): requirements.lock pyproject.toml deploy/bootstrap.sh
	@sh deploy/bootstrap.sh $(VENV) requirements.lock
	@touch $(RUNS)

$(STAMP): requirements-dev.lock pyproject.toml deploy/bootstrap.sh
	@sh deploy/bootstrap.sh $(VENV) requirements-dev.lock
	@touch $(RUNS) $(STAMP)

clean:
	rm -rf $(VENV) .coverage .mypy_cache .ruff_cache .hypothesis

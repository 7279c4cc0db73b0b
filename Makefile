# setup: make .venv. run: start the node. demo: play the tutorial. test, lint: what CI runs. bench: the figures.
# crash: kill everything, again and again; make crash SEED=7 ROUNDS=20 replays a run, or goes on for longer.
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.ready
# Many tests wait: three share two processors well. Long files go first, so that no worker ends alone.
LONG_FIRST := --dist loadfile --no-loadscope-reorder
SEED := 0
# Where the environment forbids Python to keep bytecode, every process would compile every module it imports.
CODE := protocols actors supervisor tests
ROUNDS := 1

.PHONY: setup run demo test unit crash bench lint docs format clean compiled

setup: compiled

run: compiled
	@$(VENV)/bin/nodeplane up

demo: compiled
	@$(PY) examples/demo.py

test: compiled
	@sh tests/setup.sh
	@$(PY) -m pytest -n 3 $(LONG_FIRST) tests/crash tests/integration tests/unit

unit: compiled
	@$(PY) -m pytest -n 2 $(LONG_FIRST) tests/unit

crash: compiled
	@NODEPLANE_CRASH_SEED=$(SEED) NODEPLANE_CRASH_ROUNDS=$(ROUNDS) $(PY) -m pytest -n 3 $(LONG_FIRST) tests/crash

bench: compiled
	@$(VENV)/bin/nodeplane bench

lint: $(STAMP)
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy && \
		$(PY) -m protocols.wire.generate --check && $(PY) -m supervisor.cli.reference --check && \
		$(PY) -m pytest -q tests/unit/test_imports.py

docs: $(STAMP)
	@$(PY) -m supervisor.cli.reference

format: $(STAMP)
	@$(VENV)/bin/ruff check --fix-only -q . ; $(VENV)/bin/ruff format -q .

compiled: $(STAMP)
	@$(PY) -m compileall -q $(CODE) || echo "bytecode cannot be kept here: processes start slower"

$(STAMP): requirements.lock pyproject.toml deploy/bootstrap.sh
	@sh deploy/bootstrap.sh $(VENV)
	@touch $(STAMP)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis

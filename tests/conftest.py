"""For every test: no example of a property has a deadline of its own, a machine may be busy; speed is the bench's.

`make test` tries the same examples each time, so that what it says of a commit it says again; `make test-all` twice as
many; NODEPLANE_FUZZ=1 tries others each time, and more of them. A test names a number of its own only where an example
is expensive.
"""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.durations import Recorder, read_durations

# Tests fork this process, where gRPC may be at work: its handlers start threads in the child, which end in SIGABRT.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"
FUZZ = bool(os.environ.get("NODEPLANE_FUZZ"))
ALL = bool(os.environ.get("NODEPLANE_ALL")) or os.environ.get("CI") == "true"
EXAMPLES = 500 if FUZZ else 60 if ALL else 30
settings.register_profile("nodeplane", deadline=None, derandomize=not FUZZ, max_examples=EXAMPLES)
settings.load_profile("nodeplane")
ROOT = Path(__file__).parents[1]
HEAVY = pytest.mark.skip(reason="heavy: make test-all runs it, or pytest with its file")


TEMPORARY = pytest.StashKey[Path]()


class Failures:
    """A pytest plugin that names a failed test at once: a run that is ended early shows no summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(f"failed: {report.nodeid}")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    config.pluginmanager.register(Failures(config))
    if os.environ.get("NODEPLANE_DURATIONS"):
        config.pluginmanager.register(Recorder())
    if not config.option.basetemp:
        # A unix socket has 107 bytes, of which pytest's own path takes more with each run and letter of the user.
        config.stash[TEMPORARY] = Path(tempfile.mkdtemp(prefix="pt", dir="/tmp"))
        config.option.basetemp = str(config.stash[TEMPORARY])


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if not session.testsfailed and (made := session.config.stash.get(TEMPORARY, None)):
        shutil.rmtree(made, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes longest: the rest fills the gaps, so that no process is alone at the end; skip the heavy."""
    named = _named(items[0].config) if items else set()
    for item in items:
        if not ALL and item.get_closest_marker("heavy") and item.path not in named:
            item.add_marker(HEAVY)
    seconds = read_durations()
    took = {path: seconds.get(str(path.relative_to(ROOT)), 0.0) for path in {item.path for item in items}}
    items.sort(key=lambda item: -took[item.path])


def _named(config: pytest.Config) -> set[Path]:
    """Files that the command line names."""
    return {Path(word.partition("::")[0]).resolve() for word in config.args}


@pytest.fixture
def terminal_signals() -> Iterator[None]:
    """Children get SIGINT and SIGHUP as from a terminal: `nohup make test`, or one in the background, ignores them."""
    numbers = (signal.SIGINT, signal.SIGHUP)
    ignored = [number for number in numbers if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave what was collected (modules, thousands of items) out of every garbage collection of the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()

"""The mark `kill_at_every_step`: run a test unharmed, then once for each kill, as items of their own.

Their reports have ids of their own; `--lf` runs the test again with those kills that failed.
"""

import contextlib
import inspect
from collections.abc import Collection, Iterator
from typing import Any

import msgspec
import pytest
from _pytest.runner import runtestprotocol

from pytest_nodeplane.killing import Counting, Killing
from pytest_nodeplane.plugin import EVERY_STEP, STEPPING
from pytest_nodeplane.step_reports import NOTE, OF
from pytest_nodeplane.steps import DEFAULT, LIMIT, Kill, Progress, choose, kills_of, read


class Options(msgspec.Struct, frozen=True):
    victims: tuple[str, ...]
    limit: int
    seed: int
    step: int
    """0: all."""


def options_of(item: pytest.Item) -> Options:
    """Read the mark and the command line. Raises UsageError for words that the mark does not have."""
    mark = item.get_closest_marker(EVERY_STEP)
    words = dict(mark.kwargs) if mark else {}
    victims, limit = words.pop("victims", DEFAULT), words.pop("limit", LIMIT)
    valid = not isinstance(victims, str) and isinstance(victims, Collection) and victims
    if words or (mark and mark.args) or not valid or not isinstance(limit, int) or limit < 1:
        raise pytest.UsageError(
            f'{item.nodeid}: {EVERY_STEP} has victims=("program", "devices") and limit=30, each optional'
        )
    if "node" not in getattr(item, "fixturenames", ()):
        raise pytest.UsageError(f"{item.nodeid}: {EVERY_STEP} needs the fixture node")
    seed, step = item.config.getoption("nodeplane_seed"), item.config.getoption("nodeplane_step")
    return Options(tuple(map(str, victims)), limit, seed, step)


def run(item: pytest.Function, nextitem: pytest.Item | None) -> None:
    """Run a marked test and its kills, with the fixtures of each as for a test of its own."""
    options = options_of(item)
    counting = Counting()
    item.stash[STEPPING] = counting
    passed = _run(item, _again(item, "end"))
    if passed and not _is_ending(item):
        _run_kills(item, counting, options)
    _tear_down_shared(item, nextitem)


def _tear_down_shared(item: pytest.Function, nextitem: pytest.Item | None) -> None:
    """End the fixtures of the module and wider ones that the next test does not need; report what fails."""
    ended = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), "teardown")
    if ended.excinfo:
        item.ihook.pytest_runtest_logreport(report=pytest.TestReport.from_item_and_call(item, ended))


def _run_kills(item: pytest.Function, counting: Counting, options: Options) -> None:
    kept = Kept(item, options)
    kills, note = kept.unfinished()
    if options.step:
        if not kept.progress.kills:
            kept.begin(counting, options)
        kills = [kill for kill in kept.progress.kills if kill.number == options.step]
        note = f"{len(kills)} kills at step {options.step}" if kills else f"there is no step {options.step}"
    elif not kills:
        kept.begin(counting, options)
        kills, note = list(kept.progress.chosen), kept.chosen_note(options)
    item.session.testscollected += len(kills)
    for kill in kills:
        clone = _again(item, kill.text)
        clone.stash[STEPPING] = Killing(kill)
        clone.user_properties += [(OF, item.nodeid), (NOTE, f"{item.nodeid}: {note}")]
        with _in_place_of(item, clone):
            passed = _run(clone, _again(item, "end"))
        kept.note(kill, passed)
        if _is_ending(item):
            return
    kept.end()


class Kept:
    """The progress of a test in the project's cache; without a cache nothing outlasts the run."""

    def __init__(self, item: pytest.Function, options: Options) -> None:
        self._cache = getattr(item.config, "cache", None)
        self._key = f"nodeplane/{EVERY_STEP}/{item.nodeid.replace('::', '/')}"
        self._seed = f"{options.seed} {item.nodeid}"
        self._last_failed = bool(item.config.getoption("lf", False))
        self._known = f"victims={','.join(options.victims)} limit={options.limit} seed={options.seed}"
        self.progress = read(self._cache.get(self._key, None), self._known) if self._cache else Progress(self._known)

    def unfinished(self) -> tuple[list[Kill], str]:
        """Return the kills of an earlier run that are still to do, and how to say that; none if it was complete."""
        if kills := self.progress.left(last_failed=self._last_failed):
            why = (
                "failed in the last run" if self._last_failed and self.progress.failed else "left by an interrupted run"
            )
            return kills, f"{len(kills)} of {len(self.progress.chosen)} kills, {why}"
        return [], ""

    def begin(self, counting: Counting, options: Options) -> None:
        kills = kills_of(counting.found, counting.programs, options.victims, counting.actors)
        self.progress = Progress(self._known, tuple(kills), tuple(choose(kills, options.limit, self._seed)))
        self._write()

    def chosen_note(self, options: Options) -> str:
        chosen, total = len(self.progress.chosen), len(self.progress.kills)
        why = f", chosen by --nodeplane-seed={options.seed}" if chosen < total else ""
        return f"{chosen} of {total} kills{why}"

    def note(self, kill: Kill, passed: bool) -> None:
        self.progress.note(kill, passed)
        self._write()

    def end(self) -> None:
        self.progress.complete = all(kill.text in self._done() for kill in self.progress.chosen)
        self._write()

    def _done(self) -> set[str]:
        return {*self.progress.passed, *self.progress.failed}

    def _write(self) -> None:
        if self._cache:
            self._cache.set(self._key, msgspec.to_builtins(self.progress))


@contextlib.contextmanager
def _in_place_of(item: pytest.Item, clone: pytest.Item) -> Iterator[None]:
    """Let the session have another item for a while: pytest-xdist takes reports of no other than the one that runs."""
    items = item.session.items
    at = items.index(item)
    items[at] = clone
    try:
        yield
    finally:
        items[at] = item


def _run(item: pytest.Function, nextitem: pytest.Item) -> bool:
    """Run an item with set-up and teardown; return True unless a part of it failed."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return not any(report.failed for report in reports)


def _is_ending(item: pytest.Item) -> bool:
    return bool(item.session.shouldfail or item.session.shouldstop)


def _again(item: pytest.Function, text: str) -> pytest.Function:
    """Return the test as another item, with an instance of its class of its own."""
    function: Any = item.obj
    if inspect.ismethod(function):
        function = getattr(type(function.__self__)(), function.__name__)
    name = f"{item.name}[{text}]"
    return type(item).from_parent(
        item.parent,
        name=name,
        originalname=name,
        callobj=function,
        callspec=getattr(item, "callspec", None),
        fixtureinfo=item._fixtureinfo,
    )

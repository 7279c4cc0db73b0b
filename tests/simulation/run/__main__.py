"""`make simulate`: run retained seeds, then new ones, and print what broke.

    PYTHONHASHSEED=0 python -m tests.simulation.run \
        [PROFILE=NAME] [SEED=N] [SEEDS=N] [SECONDS=S] [BUDGET=S] [JOBS=N] [TRACE=1]

SECONDS are virtual, of faults in each run; without SEEDS new seeds begin for BUDGET real seconds. The last line is one
JSON object. Exit code 1: a promise is broken; 2: an argument is wrong.
"""

import itertools
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

from tests.simulation import profiles
from tests.simulation.model import RunOptions
from tests.simulation.run.arguments import Arguments, BadArgument, arguments
from tests.simulation.run.failure import commit, report, shrink
from tests.simulation.run.retained import retained
from tests.simulation.run.seeds import Result, Run, deadline_of, numbered, results
from tests.simulation.run.summary import Summary
from tests.simulation.world.late import bind_late

KEYS = frozenset({"PROFILE", "SEED", "SEEDS", "SECONDS", "BUDGET", "JOBS", "TRACE"})
MAX_REPORTS = 3
"""Failures whose faults are shrunk and drawn, one for each set of broken promises; others get one line."""


def main(words: Sequence[str]) -> int:
    try:
        given = arguments(words, profiles.PLACES, KEYS)
        check_hash_seed()
    except BadArgument as error:
        print(f"simulate: {error}", file=sys.stderr)
        return 2
    return simulate(given, loaded(given.profiles))


def check_hash_seed() -> None:
    """Raises BadArgument unless sets of strings have one order in each process."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        raise BadArgument("set PYTHONHASHSEED=0, else a seed gives another run in each process")


def loaded(names: Iterable[str]) -> Run:
    """Import what the profiles need, for all processes at once, and return the function that runs one."""
    bind_late()
    from tests.simulation.one import run

    for name in names:
        profiles.profile(name)
    return run


def simulate(given: Arguments, run: Run) -> int:
    """Run all seeds and print what broke. Returns the exit code."""
    summary, reports = Summary(), Reports(run, commit())
    if given.retained:
        seconds = f"{given.seconds:g} virtual seconds each"
        print(f"simulate: commit {reports.commit}, new seeds from {given.seed}, {seconds}", flush=True)
    jobs = plan(given, time.monotonic() + given.budget)
    for result in results(jobs, run, jobs=given.jobs, deadline=deadline_of(given.seconds)):
        summary.add(result)
        if result.broken:
            for line in reports.lines(result):
                print(line, flush=True)
    print(summary.line(), flush=True)
    return int(summary.failures > 0)


class Reports:
    """Shrinks and draws the first failures of different promises; others get a line."""

    def __init__(self, run: Run, commit: str) -> None:
        self._run, self.commit = run, commit
        self._reported: set[frozenset[str]] = set()

    def lines(self, result: Result) -> Iterator[str]:
        if result.promises in self._reported or len(self._reported) >= MAX_REPORTS:
            yield f"FAILED {result.options.profile} seed {result.options.seed}: {', '.join(sorted(result.promises))}"
            return
        self._reported.add(result.promises)
        yield from report(result, shrink(result, self._run), self.commit)


def plan(given: Arguments, end: float) -> Iterator[RunOptions]:
    """Yield retained seeds, then new ones: `given.seeds` in all, or those that begin before `end`."""
    if given.retained:
        for kept in retained(given.profiles):
            yield RunOptions(profile=kept.profile, seed=kept.seed, seconds=kept.seconds)
    new = numbered(given.profiles, given.seed, given.seconds, given.trace)
    if given.seeds is None:
        yield from itertools.takewhile(lambda _: time.monotonic() < end, new)
    else:
        yield from itertools.islice(new, given.seeds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Search the seed that finds a mutant: one that breaks a promise with the mistake, and none without it."""

import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct
from msgspec.json import decode, encode

from tests.simulation.model import Outcome, RunOptions
from tests.simulation.mutants.hook import Mutant, install
from tests.simulation.run.__main__ import loaded
from tests.simulation.run.failure import replay
from tests.simulation.run.processes import Deadline, Ended, forked
from tests.simulation.run.seeds import Result, Run, deadline_of, results

SECONDS = {
    "store": 10.0,
    "control": 8.0,
    "restored": 8.0,
    "node": 15.0,
    "backup": 15.0,
    "plane": 10.0,
    "lost": 10.0,
    "resized": 20.0,
    "workloads": 15.0,
    "custom": 15.0,
    "devices": 30.0,
    "claims": 20.0,
}
"""Virtual seconds of faults by profile, unless SECONDS is given: many short runs find more than a few long ones."""
LONGEST = Deadline(cpu=600, wall=7200)
"""For one search; one that takes longer is a survivor. Its runs have deadlines of their own."""


class Search(Struct, frozen=True):
    """One mutant and the seeds that are left for it."""

    mutant: Mutant
    first: int
    """The next seed."""
    left: int
    seconds: float
    tried: int = 0
    real_s: float = 0.0


class Found(Struct, frozen=True):
    """How a search ended; `options` is the run that broke a promise, None for a survivor."""

    seeds: int
    real_s: float
    options: RunOptions | None = None
    promises: tuple[str, ...] = ()


def seek(search: Search) -> Found:
    """Import the product with the mistake, in this process alone, and run seeds until one breaks a promise."""
    mutant, begun, tried = search.mutant, time.monotonic(), search.tried
    install(mutant)
    run = loaded([mutant.profile])
    options = (
        RunOptions(profile=mutant.profile, seed=seed, seconds=search.seconds, mutant=mutant.name)
        for seed in range(search.first, search.first + search.left)
    )
    for result in results(options, run, jobs=1, deadline=deadline_of(search.seconds)):
        tried += 1
        if result.broken:
            promises = tuple(sorted(result.promises))
            return Found(tried, search.real_s + time.monotonic() - begun, result.options, promises)
    return Found(tried, search.real_s + time.monotonic() - begun)


def run_unchanged(options: RunOptions) -> Outcome:
    """Run a seed on the product as it is, which is imported in this process alone."""
    return loaded([options.profile])(options)


class Hunt:
    """Searches all mutants. A seed that breaks a promise of the product as it is finds none, and the search goes on."""

    def __init__(self, jobs: int, seek: Callable[[Search], Found] = seek, unchanged: Run = run_unchanged) -> None:
        self._jobs, self._seek, self._unchanged = jobs, seek, unchanged
        self._results: dict[RunOptions, Result] = {}
        """Of runs of the product as it is."""
        self.found: dict[str, Found] = {}
        """By the mutant's name."""

    @property
    def failing(self) -> list[Result]:
        """Runs of the product as it is that broke a promise."""
        return [result for result in self._results.values() if result.broken]

    def lines(self, searches: Sequence[Search]) -> Iterator[str]:
        """Search, and yield a line for each mutant and each failure of the product."""
        while searches:
            again: list[Search] = []
            work = forked(searches, lambda each: encode(self._seek(each)), at_a_time=self._jobs, deadline=LONGEST)
            for search, ended in work:
                found = _found(search, ended)
                if found.options is not None and (text := self._failure(found.options)) is not None:
                    yield text
                    again.append(_after(search, found, found.options))
                else:
                    self.found[search.mutant.name] = found
                    yield line(search.mutant, found, ended.fault)
            searches = again

    def _failure(self, broke: RunOptions) -> str | None:
        """Run a seed without the mutant; return what it breaks, None if it passes."""
        plain = msgspec.structs.replace(broke, mutant="")
        if plain not in self._results:
            each = results([plain], self._unchanged, jobs=1, deadline=deadline_of(plain.seconds))
            self._results[plain] = next(iter(each))
        promises = ", ".join(sorted(self._results[plain].promises))
        return f"FAILED {replay(plain)} without {broke.mutant}: {promises}" if promises else None


def _found(search: Search, ended: Ended) -> Found:
    if ended.fault:
        return Found(search.tried, LONGEST.wall)
    return decode(ended.answer, type=Found)


def _after(search: Search, found: Found, broke: RunOptions) -> Search:
    """Return the search from the seed after the one that fails by itself."""
    done = broke.seed + 1 - search.first
    changes = {"first": broke.seed + 1, "left": search.left - done, "tried": found.seeds, "real_s": found.real_s}
    return msgspec.structs.replace(search, **changes)


def line(mutant: Mutant, found: Found, fault: str = "") -> str:
    """Return what is printed of a search that has ended; `fault`: how its process died."""
    took = f"{found.seeds} seeds" if found.seeds != 1 else "1 seed"
    if fault:
        return f"{mutant.name:<24} no answer: {fault}"
    if found.options is None:
        return f"{mutant.name:<24} SURVIVED {took}: {mutant.mistake}"
    return f"{mutant.name:<24} {took:>9} {found.real_s:6.0f} s  {', '.join(found.promises)[:60]}"

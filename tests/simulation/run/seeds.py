"""Run seeds side by side and judge how each ended."""

import shutil
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.simulation.model import Broken, Outcome, RunOptions
from tests.simulation.run.processes import Deadline, Ended, forked

UNDISTURBED = 30.0
"""Virtual seconds without faults at the end of each run."""
DIRECTORIES = "/dev/shm", "/var/tmp"
"""Where runs keep their files."""
HUNG = "ends"
"""The promise that a run of the simulation ends by itself."""

Run = Callable[[RunOptions], Outcome]


class Result(Struct, frozen=True):
    """One seed's run; `outcome` is None where the process did not end well."""

    options: RunOptions
    broken: tuple[Broken, ...]
    outcome: Outcome | None
    cpu_s: float = 0.0

    @property
    def promises(self) -> frozenset[str]:
        return frozenset(each.promise for each in self.broken)


def results(options: Iterable[RunOptions], run: Run, *, jobs: int, deadline: Deadline) -> Generator[Result, None, None]:
    """Yield the results in the order of their ends."""

    def work(job: RunOptions) -> bytes:
        return msgspec.json.encode(run(job))

    try:
        for job, ended in forked(options, work, at_a_time=jobs, deadline=deadline):
            yield _result(job, ended)
    finally:
        remove_left_behind()


def deadline_of(seconds: float) -> Deadline:
    """Return the time after which a run hangs: it is slower than time itself."""
    real = 30.0 + seconds + UNDISTURBED
    return Deadline(cpu=real, wall=10 * real)


def numbered(profiles: tuple[str, ...], first: int, seconds: float, trace: bool = False) -> Iterator[RunOptions]:
    """Yield options without end: profiles take turns with each seed."""
    seed = first
    while True:
        for profile in profiles:
            yield RunOptions(profile=profile, seed=seed, seconds=seconds, trace=trace)
        seed += 1


def remove_left_behind() -> None:
    """Remove directories of runs whose process was killed. Their names have its id."""
    for name in DIRECTORIES:
        for path in Path(name).glob("simulation-*-*"):
            pid = path.name.split("-")[1]
            if pid.isdigit() and not Path(f"/proc/{int(pid)}").exists():
                shutil.rmtree(path, ignore_errors=True)


def _result(options: RunOptions, ended: Ended) -> Result:
    if ended.fault:
        return Result(options, (Broken(HUNG, ended.fault),), None)
    outcome = msgspec.json.decode(ended.answer, type=Outcome)
    return Result(options, tuple(outcome.broken), outcome, ended.cpu_s)

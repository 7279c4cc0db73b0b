"""What is printed and drawn of a seed that broke a promise."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.simulation.model import Broken, Fault, Outcome, RunOptions
from tests.simulation.run.seeds import HUNG, Result, Run, deadline_of, results
from tests.simulation.run.shrink import shrunk
from tests.simulation.run.timeline import picture, text

ROOT = Path(__file__).parents[3]
DRAWN = ROOT / "build" / "simulation"
"""Timelines and lists of faults of seeds that failed; not in git."""
SHRINK_S = 60.0
"""Real seconds of leaving faults out."""
SHRINK_RUNS = 200
MAX_FAULTS_SHOWN = 40
MAX_LINES_OF_STACK = 60


class Shrunk(Struct, frozen=True):
    """The run with the fewest faults that still broke one of the promises."""

    faults: list[Fault]
    outcome: Outcome | None
    runs: int
    real_s: float


def shrink(result: Result, run: Run, clock: Callable[[], float] = time.monotonic) -> Shrunk | None:
    """Leave out faults while one of the broken promises still breaks; None where there is no plan or it hung."""
    if result.outcome is None:
        return None
    promises, begun, runs = result.promises, clock(), 0
    best: Outcome | None = None

    def breaks(faults: Sequence[Fault]) -> bool:
        nonlocal runs, best
        runs += 1
        options = msgspec.structs.replace(result.options, faults=tuple(faults), trace=False)
        again = _one(options, run)
        if again.outcome is None or not promises & again.promises:
            return False
        best = again.outcome
        return True

    faults = shrunk(result.outcome.faults, breaks, lambda: runs < SHRINK_RUNS and clock() - begun < SHRINK_S)
    return Shrunk(faults, best, runs, clock() - begun)


def report(result: Result, found: Shrunk | None, commit: str) -> Iterator[str]:
    """Yield the lines about a failure; draws the timeline of the shortest run that breaks."""
    options = result.options
    yield f"FAILED {options.profile} seed {options.seed} ({options.seconds:g} virtual seconds, commit {commit})"
    for broken in result.broken:
        yield from _broken(broken)
    if found is not None:
        yield from _faults(found, len(result.outcome.faults) if result.outcome else 0)
    outcome = (found.outcome if found else None) or result.outcome
    if outcome is not None:
        yield from _drawn(outcome, options, found)
    yield f"  replay: {replay(options)}"
    first = result.broken[0]
    what = "hung or died" if first.promise == HUNG else f"{first.promise}: {first.text}"
    yield f"  retain: {options.profile} {options.seed} {options.seconds:g} {' '.join(what.split())[:100]}"


def replay(options: RunOptions) -> str:
    return f"make simulate PROFILE={options.profile} SEED={options.seed} SECONDS={options.seconds:g}"


def commit() -> str:
    """Return the commit of the checkout, with `+` where files differ from it."""
    try:
        asked = subprocess.run(
            ("git", "describe", "--always", "--exclude", "*", "--dirty=+"),
            cwd=ROOT, capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return asked.stdout.strip()


def _one(options: RunOptions, run: Run) -> Result:
    return next(iter(results([options], run, jobs=1, deadline=deadline_of(options.seconds))))


def _broken(broken: Broken) -> Iterator[str]:
    lines = broken.text.splitlines() or [""]
    at = f" at {broken.at:.3f} s" if broken.at else ""
    yield f"  {broken.promise}{at}: {lines[0]}"
    yield from (f"    {line}" for line in lines[1:][-MAX_LINES_OF_STACK:])


def _faults(found: Shrunk, before: int) -> Iterator[str]:
    yield f"  {len(found.faults)} of {before} faults still break it ({found.runs} runs, {found.real_s:.0f} s):"
    for fault in found.faults[:MAX_FAULTS_SHOWN]:
        value = f" {fault.value:g}" if fault.value else ""
        yield f"    {fault.at:9.3f} s  {fault.kind} {fault.target}{value}"
    if len(found.faults) > MAX_FAULTS_SHOWN:
        yield f"    and {len(found.faults) - MAX_FAULTS_SHOWN} more"


def _drawn(outcome: Outcome, options: RunOptions, found: Shrunk | None) -> Iterator[str]:
    yield from (f"  {line}" for line in text(outcome).splitlines())
    DRAWN.mkdir(parents=True, exist_ok=True)
    name = f"{options.profile}-{options.seed}"
    (DRAWN / f"{name}.svg").write_text(picture(outcome))
    (DRAWN / f"{name}.txt").write_text(text(outcome, latest=None))
    yield f"  timeline: {_short(DRAWN / f'{name}.svg')}, {_short(DRAWN / f'{name}.txt')}"
    if found is not None:
        faults = DRAWN / f"{name}.json"
        faults.write_bytes(msgspec.json.encode(found.faults))
        command = f"{options.profile} {options.seed} {options.seconds:g} --faults {_short(faults)}"
        yield f"  shortest: python -m tests.simulation.one {command}"


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)

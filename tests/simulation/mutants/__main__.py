"""`make mutants`: run each mutant until a seed finds it, and print how many seeds that took.

    PYTHONHASHSEED=0 python -m tests.simulation.mutants \
        [MUTANT=NAME,NAME] [SEED=N] [SEEDS=200] [SECONDS=S] [JOBS=N] [PROFILE=NAME]

A seed counts only if the product without the mistake passes it. Exit code 1: a mutant survived, which is a missing
check or limit, or the product itself fails; 2: an argument is wrong.
"""

import importlib
import sys
import time
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from tests.simulation import profiles
from tests.simulation.model import RunOptions
from tests.simulation.mutants.hook import ROOT, Mutant, install
from tests.simulation.mutants.table import MUTANTS
from tests.simulation.run.__main__ import check_hash_seed, loaded
from tests.simulation.run.arguments import Arguments, BadArgument, arguments
from tests.simulation.run.processes import Deadline, forked
from tests.simulation.run.seeds import Result, deadline_of, results
from tests.simulation.world.late import bind_late

KEYS = frozenset({"MUTANT", "SEED", "SEEDS", "SECONDS", "JOBS", "PROFILE"})
SEEDS = 200
SECONDS = {"store": 10.0, "control": 8.0, "restored": 8.0, "node": 15.0}
"""Virtual seconds of faults by profile, unless SECONDS is given: many short runs find more than a few long ones."""
FIRST_SEED = 1
LIBRARIES = """
aiohttp cryptography.x509 grpc.aio jsonpatch prometheus_client re2 rich.console uvloop yaml zmq.asyncio
"""
LONGEST = Deadline(cpu=600, wall=7200)
"""For one mutant; a search that takes longer is a survivor. Its runs have deadlines of their own."""


class Found(Struct, frozen=True):
    """The search for one mutant; `options` is the run that found it, None for a survivor."""

    seeds: int
    real_s: float
    options: RunOptions | None = None
    promises: tuple[str, ...] = ()


def main(words: Sequence[str]) -> int:
    try:
        given = arguments(words, profiles.PLACES, KEYS, seconds=0.0)
        check_hash_seed()
        wanted = chosen(given)
    except BadArgument as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    preload()
    return hunt(wanted, given)


def preload() -> None:
    """Import libraries and generated code once for all mutants: half of the time of an import."""
    bind_late()
    for name in LIBRARIES.split():
        importlib.import_module(name)
    for path in (ROOT / "protocols" / "wire").glob("*_pb2*.py"):
        importlib.import_module(f"protocols.wire.{path.stem}")


def chosen(given: Arguments) -> list[Mutant]:
    names = {mutant.name for mutant in MUTANTS}
    if unknown := sorted(set(given.mutants) - names):
        raise BadArgument(f"unknown MUTANT={','.join(unknown)}: use some of {', '.join(sorted(names))}")
    return [
        mutant for mutant in MUTANTS
        if (mutant.name in given.mutants or not (given.mutants or mutant.missed)) and mutant.profile in given.profiles
    ]  # fmt: skip


def hunt(wanted: Sequence[Mutant], given: Arguments) -> int:
    found: dict[str, Found] = {}
    for mutant, ended in forked(wanted, lambda each: _search(each, given), at_a_time=given.jobs, deadline=LONGEST):
        if ended.fault:
            print(f"{mutant.name:<24} no answer: {ended.fault}", flush=True)
            found[mutant.name] = Found(0, LONGEST.wall)
            continue
        found[mutant.name] = search = msgspec.json.decode(ended.answer, type=Found)
        print(line(mutant, search), flush=True)
    ran = [search.options for search in found.values() if search.options is not None]
    wrong = _failing_without(ran, given)
    for result in wrong:
        promises = ", ".join(sorted(result.promises))
        print(f"FAILED {result.options.profile} seed {result.options.seed} without a mutant: {promises}", flush=True)
    survivors = [name for name, search in found.items() if search.options is None]
    print(summary(found, survivors, len(wrong)), flush=True)
    return int(bool(survivors or wrong))


def line(mutant: Mutant, search: Found) -> str:
    took = f"{search.seeds} seeds" if search.seeds != 1 else "1 seed"
    if search.options is None:
        return f"{mutant.name:<24} SURVIVED {took}: {mutant.mistake}"
    return f"{mutant.name:<24} {took:>9} {search.real_s:6.0f} s  {', '.join(search.promises)[:60]}"


def summary(found: dict[str, Found], survivors: Sequence[str], failing: int) -> str:
    took = sorted(search.seeds for search in found.values() if search.options is not None)
    return msgspec.json.encode(
        {
            "mutants": len(found),
            "found": len(took),
            "median_seeds": took[len(took) // 2] if took else 0,
            "most_seeds": max(took, default=0),
            "failing_without": failing,
            "survivors": list(survivors),
            "missed": [mutant.name for mutant in MUTANTS if mutant.missed and mutant.name not in found],
        }
    ).decode()


def _search(mutant: Mutant, given: Arguments) -> bytes:
    """Import the product with the mistake, in this process alone, and run seeds until one finds it."""
    install(mutant)
    run = loaded([mutant.profile])
    first = given.seed if not given.retained else FIRST_SEED
    count, begun, tried = given.seeds or SEEDS, time.monotonic(), 0
    seconds = given.seconds or SECONDS[mutant.profile]
    options = (
        RunOptions(profile=mutant.profile, seed=first + number, seconds=seconds, mutant=mutant.name)
        for number in range(count)
    )
    for result in results(options, run, jobs=1, deadline=deadline_of(seconds)):
        tried += 1
        if result.broken:
            promises = tuple(sorted(result.promises))
            return msgspec.json.encode(Found(tried, time.monotonic() - begun, result.options, promises))
    return msgspec.json.encode(Found(tried, time.monotonic() - begun))


def _failing_without(ran: Iterable[RunOptions], given: Arguments) -> list[Result]:
    """Run the seeds that found a mutant on the product as it is; each one must pass."""
    plain = {(each.profile, each.seed): msgspec.structs.replace(each, mutant="") for each in ran}
    if not plain:
        return []
    run = loaded({each.profile for each in plain.values()})
    longest = max(each.seconds for each in plain.values())
    every = results(plain.values(), run, jobs=given.jobs, deadline=deadline_of(longest))
    return [result for result in every if result.broken]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

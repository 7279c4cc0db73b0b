"""`make mutants`: run each mutant until a seed finds it, and print how many seeds that took.

    PYTHONHASHSEED=0 python -m tests.simulation.mutants \
        [MUTANT=NAME,NAME] [SEED=N] [SEEDS=200] [SECONDS=S] [JOBS=N] [PROFILE=NAME]

A seed counts only if the product without the mistake passes it; one that does not is printed as a failure of the
product, and the search goes on. Exit code 1: a mutant survived, which is a missing check or limit, or the product
itself fails; 2: an argument is wrong.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence

import msgspec

from tests.simulation import profiles
from tests.simulation.mutants.hook import ROOT, Mutant
from tests.simulation.mutants.search import SECONDS, Found, Hunt, Search
from tests.simulation.mutants.table import MUTANTS
from tests.simulation.run.__main__ import check_hash_seed
from tests.simulation.run.arguments import Arguments, BadArgument, arguments
from tests.simulation.world.late import bind_late

KEYS = frozenset({"MUTANT", "SEED", "SEEDS", "SECONDS", "JOBS", "PROFILE"})
SEEDS = 200
FIRST_SEED = 1
LIBRARIES = """
aiohttp cryptography.x509 grpc.aio jsonpatch prometheus_client re2 rich.console uvloop yaml zmq.asyncio
"""


def main(words: Sequence[str]) -> int:
    try:
        given = arguments(words, profiles.PLACES, KEYS, seconds=0.0)
        check_hash_seed()
        wanted = chosen(given)
    except BadArgument as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    preload()
    return run(wanted, given)


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
        if (mutant.name in given.mutants or not given.mutants) and mutant.profile in given.profiles
    ]  # fmt: skip


def run(wanted: Sequence[Mutant], given: Arguments) -> int:
    """Search the mutants and print how it went. Returns the exit code."""
    hunt = Hunt(given.jobs)
    for text in hunt.lines([_search(mutant, given) for mutant in wanted]):
        print(text, flush=True)
    survivors = [name for name, found in hunt.found.items() if found.options is None]
    print(summary(hunt.found, survivors, len(hunt.failing)), flush=True)
    return int(bool(survivors or hunt.failing))


def _search(mutant: Mutant, given: Arguments) -> Search:
    seconds = given.seconds or SECONDS[mutant.profile]
    return Search(mutant, FIRST_SEED if given.retained else given.seed, given.seeds or SEEDS, seconds)


def summary(found: Mapping[str, Found], survivors: Sequence[str], failing: int) -> str:
    took = sorted(search.seeds for search in found.values() if search.options is not None)
    return msgspec.json.encode(
        {
            "mutants": len(found),
            "found": len(took),
            "median_seeds": took[len(took) // 2] if took else 0,
            "most_seeds": max(took, default=0),
            "failing_without": failing,
            "survivors": list(survivors),
        }
    ).decode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Seeds that failed once: `retained.txt` holds a line for each, and every run of `make simulate` begins with them.

A line is `PROFILE SEED SECONDS WHAT IT WAS`. Product code that changes draws other numbers, so that an old seed may no
longer reach the old fault; the list is short and costs little, and the unit test of the fault stays beside it.
"""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

RETAINED = Path(__file__).with_name("retained.txt")


class RetainedSeed(Struct, frozen=True):
    profile: str
    seed: int
    seconds: float
    what: str


class BadLine(ValueError):
    """A line of the retained seeds cannot be read."""


def read(lines: Iterable[str]) -> list[RetainedSeed]:
    """Return the seeds in the order of the file.

    Raises:
        BadLine: with the number of the line.
    """
    return [
        _seed(number, line)
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    ]  # fmt: skip


def retained(profiles: Iterable[str]) -> list[RetainedSeed]:
    names = tuple(profiles)
    return [each for each in read(RETAINED.read_text().splitlines()) if each.profile in names]


def _seed(number: int, line: str) -> RetainedSeed:
    words = line.split(maxsplit=3)
    try:
        profile, seed, seconds, what = words
        return RetainedSeed(profile, int(seed), float(seconds), what.strip())
    except ValueError:
        raise BadLine(f"{RETAINED.name}:{number}: write PROFILE SEED SECONDS WHAT IT WAS, not {line!r}") from None

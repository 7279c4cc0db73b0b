"""Arguments of `make simulate` and `make mutants`: words `KEY=VALUE`, empty values count as absent."""

import secrets
from collections.abc import Iterable, Mapping

from msgspec import Struct

DEFAULT_SECONDS = 60.0
"""Virtual seconds of faults in a run."""
DEFAULT_BUDGET = 60.0
"""Real seconds for new seeds where no number of seeds is given."""
MAX_SEED = 1 << 62
MAX_SEEDS = 1_000_000
MAX_SECONDS = 86_400.0
MAX_JOBS = 64
FLAGS = {"0": False, "1": True}


class BadArgument(Exception):
    """An argument is unknown or out of bounds; the command ends with exit code 2."""


class Arguments(Struct, frozen=True, kw_only=True):
    """What to run. Without `seeds`, seeds are drawn until `budget` real seconds are over."""

    profiles: tuple[str, ...]
    seed: int
    seeds: int | None
    retained: bool
    seconds: float = DEFAULT_SECONDS
    budget: float = DEFAULT_BUDGET
    jobs: int = 2
    trace: bool = False
    mutants: tuple[str, ...] = ()


def arguments(
    words: Iterable[str], profiles: Iterable[str], keys: frozenset[str], seconds: float = DEFAULT_SECONDS
) -> Arguments:
    """Parse words of a command that knows `keys`; `seconds` are the default.

    A SEED without SEEDS is replayed alone, by each profile; retained seeds run only where no SEED is given.

    Raises:
        BadArgument: one line that says how to mend it.
    """
    given = _pairs(words, keys)
    seed = _number(given, "SEED", 0, MAX_SEED)
    seeds = _number(given, "SEEDS", 1, MAX_SEEDS)
    trace = _choice(given, "TRACE", FLAGS) or False
    names = _profiles(given, tuple(profiles))
    if seed is not None and seeds is None and "BUDGET" not in given:
        seeds = len(names)
    return Arguments(
        profiles=names,
        seed=secrets.randbelow(1 << 31) if seed is None else seed,
        seeds=seeds,
        retained=seed is None,
        seconds=_real(given, "SECONDS", MAX_SECONDS, seconds),
        budget=_real(given, "BUDGET", MAX_SECONDS * 31, DEFAULT_BUDGET),
        jobs=1 if trace else _number(given, "JOBS", 1, MAX_JOBS) or 2,
        trace=trace,
        mutants=tuple(given.get("MUTANT", "").split(",")) if "MUTANT" in given else (),
    )


def _pairs(words: Iterable[str], keys: frozenset[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in keys:
            raise BadArgument(f"unknown argument {word!r}: use {', '.join(f'{known}=...' for known in sorted(keys))}")
        if value.strip():
            given[key] = value.strip()
    return given


def _profiles(given: Mapping[str, str], known: tuple[str, ...]) -> tuple[str, ...]:
    name = given.get("PROFILE")
    if name is None:
        return known
    if name not in known:
        raise BadArgument(f"unknown PROFILE={name}: use one of {', '.join(known)}")
    return (name,)


def _number(given: Mapping[str, str], key: str, least: int, most: int) -> int | None:
    text = given.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 20 or not least <= int(text) <= most:
        raise BadArgument(f"{key}={text} is no whole number from {least} to {most}")
    return int(text)


def _real(given: Mapping[str, str], key: str, most: float, default: float) -> float:
    text = given.get(key)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise BadArgument(f"{key}={text} is no number of seconds above 0 and up to {most:g}")
    return value


def _choice(given: Mapping[str, str], key: str, choices: Mapping[str, bool]) -> bool | None:
    text = given.get(key)
    if text is not None and text not in choices:
        raise BadArgument(f"{key}={text} is none of {', '.join(choices)}")
    return None if text is None else choices[text]

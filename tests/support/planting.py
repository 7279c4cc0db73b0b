"""Bugs that are planted into a correct program, by the names of the functions that replace a part of it."""

from collections.abc import Callable

BUGS: dict[str, Callable[[], None]] = {}


def bug(plant: Callable[[], None]) -> Callable[[], None]:
    BUGS[plant.__name__] = plant
    return plant


def replace(owner: object, name: str, part: object) -> None:
    setattr(owner, name, part)

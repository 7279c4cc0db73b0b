"""Which kills a test with the mark `kill_at_every_step` has, and what is retained of them between runs. Pure.

A step is known by its actor, name, label and ordinal, so that it is found again when the test runs again.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from protocols.messages.trace import Step

LIMIT = 30
"""Kills of a test, unless its mark has another limit."""
PROGRAM, ACTOR = "program", "actor"
"""Victims that each step has: what the test started, and the actor that the step is of."""
DEFAULT = (PROGRAM, ACTOR)


class Found(msgspec.Struct, frozen=True):
    """A step as the first run of a test saw it."""

    actor: str
    step: Step
    node: str = ""
    """Name of the actor's node; empty where the plane has one."""

    @property
    def text(self) -> str:
        again = f" ({self.step.ordinal})" if self.step.ordinal > 1 else ""
        return " ".join(filter(None, (self.step.name, self.step.label))) + again

    @property
    def is_call(self) -> bool:
        """True for a call of a plugin or driver: methods are written in CamelCase, other steps in lower case."""
        return self.step.name[:1].isupper()


class Program(NamedTuple):
    """A program that a test started."""

    position: int
    """Among those of its node, in the order of their starts."""
    name: str
    node: str = ""


class Kill(msgspec.Struct, frozen=True):
    number: int
    """Of the step, from 1."""
    of: int
    at: Found
    victim: str
    """Name of an actor or a program."""
    program: int = -1
    """Position of the program among those that the test starts; -1 for an actor."""
    node: str = ""
    """Name of the victim's node; empty where the plane has one."""

    @property
    def text(self) -> str:
        victim = f"{self.victim} on {self.node}" if self.node else self.victim
        where = f" on {self.at.node}" if self.at.node != self.node else ""
        return f"step {self.number} of {self.of}: SIGKILL of {victim} at {self.at.text}{where}"


class Progress(msgspec.Struct):
    """What a project's cache retains of one test."""

    options: str
    """Victims, limit and seed; with others the test begins anew."""
    kills: tuple[Kill, ...] = ()
    """All of them, also those that the limit leaves out."""
    chosen: tuple[Kill, ...] = ()
    passed: list[str] = []
    failed: list[str] = []
    complete: bool = False

    def left(self, *, last_failed: bool) -> list[Kill]:
        """Return the kills that are still to do: those that failed, or those of an interrupted run."""
        if last_failed and self.failed:
            return [kill for kill in self.chosen if kill.text in self.failed]
        return [] if self.complete else [kill for kill in self.chosen if kill.text not in self.passed]

    def note(self, kill: Kill, passed: bool) -> None:
        for names in (self.passed, self.failed):
            if kill.text in names:
                names.remove(kill.text)
        (self.passed if passed else self.failed).append(kill.text)


def kills_of(
    found: Sequence[Found], programs: Sequence[Program], victims: Collection[str], actors: Mapping[str, Collection[str]]
) -> list[Kill]:
    """Return each kill of each step, in the order in which the steps began.

    `programs`: those that ran when the first run had ended. `actors`: those of each node, the first node's first; an
    actor that the node of a step does not have is the first node's.
    """
    kills: list[Kill] = []
    first = next(iter(actors), "")
    for number, at in enumerate(found, 1):
        names = [at.actor if victim == ACTOR else victim for victim in victims if victim != PROGRAM]
        named = [(name, -1, at.node if name in actors.get(at.node, ()) else first) for name in names]
        chosen = [(program.name, program.position, program.node) for program in programs] if PROGRAM in victims else []
        kills += [Kill(number, len(found), at, *each) for each in dict.fromkeys([*chosen, *named])]
    return kills


def choose(kills: Sequence[Kill], limit: int, seed: str) -> list[Kill]:
    """Return at most `limit` kills, those at calls of plugins and drivers first, the others by chance."""
    dice = random.Random(seed)
    ranked = sorted(kills, key=lambda kill: (not kill.at.is_call, dice.random()))
    chosen = {id(kill) for kill in ranked[:limit]}
    return [kill for kill in kills if id(kill) in chosen]


def read(value: Any, options: str) -> Progress:
    """Return the progress that a cache has, an empty one if it is another version's or of other options."""
    try:
        progress = msgspec.convert(value, Progress)
    except msgspec.ValidationError:
        return Progress(options)
    return progress if progress.options == options else Progress(options)

"""The vocabulary of scripts."""

import msgspec

from supervisor.errors import SupervisorError, Usage

WITHIN_S = 60.0
"""How long an expectation may take to come about, and an order to be taken, when the line does not say."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a script."""

    line: int
    text: str
    verb: str
    words: tuple[str, ...]
    within: float = WITHIN_S
    aside: bool = False
    """It ended with `&`: the next line does not wait for it."""
    body: tuple["Step", ...] = ()
    """What `repeat` repeats."""


class Script(msgspec.Struct, frozen=True):
    name: str
    steps: tuple[Step, ...]


class ScriptInvalid(Usage):
    """Raised before anything is done when a line of a script cannot be understood."""


class ScriptFailed(SupervisorError):
    """Raised when an expectation did not come about, or an order was not taken, within its time."""

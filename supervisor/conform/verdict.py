"""Verdicts on one behaviour of a plugin, and what they are made of."""

import msgspec

from supervisor.base.errors import SupervisorError
from supervisor.conform.exchange import Exchange

PASS, FAIL, NOT_APPLICABLE = "pass", "fail", "not applicable"
MAX_REASON = 1000
"""Characters of a reason, which plugins may choose in part."""


class Failed(SupervisorError, grpc="FAILED_PRECONDITION"):
    """Raised by a behaviour's script when the plugin breaks the rule; the text says what was found."""


class CallFailed(Failed):
    """Raised when the plugin answers a call with an error, with no valid message, or not in time."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotApplicable(SupervisorError, grpc="FAILED_PRECONDITION"):
    """Raised by a behaviour's script when its rule does not concern this plugin; the text says why."""


class Listed(msgspec.Struct, frozen=True):
    """A behaviour, as `--list -o json` prints it."""

    name: str
    title: str
    phase: str
    rule: str
    source: str
    advice: str
    """Advice for a failure."""


class Result(Listed, frozen=True):
    """The verdict on one behaviour, with its evidence."""

    verdict: str
    reason: str = ""
    """The finding, or the reason why the rule does not apply."""
    seconds: float = 0.0
    exchanges: tuple[Exchange, ...] = ()
    omitted: int = 0
    """Exchanges left out."""
    output: tuple[str, ...] = ()
    """The last lines that the program printed meanwhile."""

"""The budget of a request: a bound for work whose size a client decides.

Code calls `spend` with its work in units of about a microsecond. Without a budget in the current context nothing is
counted, so that pure functions can be used anywhere.
"""

import time
from contextvars import ContextVar

from protocols.errors import NodeplaneError

UNITS = 4_000_000
"""Units of one request, some seconds."""


class BudgetSpent(NodeplaneError, http=413, grpc="RESOURCE_EXHAUSTED"):
    """Raised when a request needs more work than the server spends on one."""

    def __init__(self) -> None:
        super().__init__("the request needs more work than the server spends on one: send smaller objects or patterns")


class DeadlinePassed(NodeplaneError, http=504, grpc="DEADLINE_EXCEEDED"):
    """Raised inside work that has passed its deadline."""

    def __init__(self) -> None:
        super().__init__("Timeout: the work of the request did not end within its deadline")


class Budget:
    """Remaining units, and the deadline by time.monotonic()."""

    __slots__ = ("deadline", "units")

    def __init__(self, seconds: float, units: int = UNITS) -> None:
        self.deadline = time.monotonic() + seconds
        self.units = units

    def spend(self, units: int) -> None:
        """Spend units. Raises BudgetSpent, DeadlinePassed."""
        self.units -= units
        if self.units < 0:
            raise BudgetSpent
        if time.monotonic() > self.deadline:
            raise DeadlinePassed


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


class within:  # reads as a statement
    """Count the work of the block, and of threads started with its context, against `budget`.

    A class, since each small write enters three of them and a generator costs twice as much.
    """

    __slots__ = ("_budget", "_token")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def __enter__(self) -> None:
        self._token = _current.set(self._budget)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def spend(units: int) -> None:
    """Count work against the current budget. Raises BudgetSpent, DeadlinePassed."""
    budget = _current.get()
    if budget is not None:
        budget.spend(units)

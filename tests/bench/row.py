"""One figure of the bench table."""

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


class Unmeasured(Exception):
    """Raised by a bench that cannot run on this machine; names what it lacks."""


@dataclass(frozen=True)
class Row:
    name: str
    value: float | None
    """None: it is missing."""
    unit: str
    floor: float | None = None
    """The bare baseline, run beside it, in the same unit."""
    target: str = ""
    ok: bool = True
    missing: str = ""
    """Why there is no value."""

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor and self.value is not None else None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"ratio": self.ratio}


def missing(name: str, reason: str) -> Row:
    """A row, or all rows of a bench, that could not be measured."""
    return Row(name, None, "", ok=False, missing=reason)


def at_most(name: str, values: list[float], unit: str, limit: float, floor: float | None = None) -> Row:
    """The median of several runs against an upper limit."""
    value = median(values)
    return Row(name, value, unit, floor, f"<= {limit:g} {unit}", value <= limit)


def at_least(name: str, values: list[float], unit: str, limit: float, floor: float | None = None) -> Row:
    """The median of several runs against a lower limit."""
    value = median(values)
    return Row(name, value, unit, floor, f">= {limit:g} {unit}", value >= limit)

"""One figure of the bench table."""

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Row:
    name: str
    value: float
    unit: str
    floor: float | None = None
    """The bare baseline, run beside it, in the same unit."""
    target: str = ""
    ok: bool = True

    @property
    def ratio(self) -> float | None:
        return self.value / self.floor if self.floor else None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"ratio": self.ratio}


def at_most(name: str, values: list[float], unit: str, limit: float, floor: float | None = None) -> Row:
    """The median of several runs against an upper limit."""
    value = median(values)
    return Row(name, value, unit, floor, f"<= {limit:g} {unit}", value <= limit)


def at_least(name: str, values: list[float], unit: str, limit: float, floor: float | None = None) -> Row:
    """The median of several runs against a lower limit."""
    value = median(values)
    return Row(name, value, unit, floor, f">= {limit:g} {unit}", value >= limit)

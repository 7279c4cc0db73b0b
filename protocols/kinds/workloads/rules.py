"""Checks that several kinds of workloads share: replicas, percentages, statuses. Messages equal upstream's."""

import re
from collections.abc import Iterable

from protocols.kinds.check.causes import invalid
from protocols.kinds.check.table import Causes, Check, Struct, at_least
from protocols.kube.meta import Object

not_negative = at_least(0)
PERCENT = re.compile(r"[0-9]+%", re.ASCII)
PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
MOST_PERCENT, LONGEST_PERCENT, HUGE = 100, 18, 2**63 - 1


def percent_of(value: int | str) -> int | None:
    """Return the number of a percentage, or a huge one for a very long text; None for a count or an invalid text."""
    if not isinstance(value, str) or not PERCENT.fullmatch(value):
        return None
    return int(value[:-1]) if len(value) <= LONGEST_PERCENT else HUGE


def amount(value: int | str | None) -> int:
    """Return the number of a count or a percentage; 0 for an invalid one."""
    return value if isinstance(value, int) else percent_of(value or "") or 0


def int_or_percent(path: str, value: int | str, causes: Causes) -> None:
    """Check a number that is not negative, or a percentage."""
    if isinstance(value, int):
        not_negative(path, value, causes)
    elif not PERCENT.fullmatch(value):
        causes.append(invalid(path, value, PERCENT_TEXT))


def up_to_all(path: str, value: int | str, causes: Causes) -> None:
    """Check that a percentage is not above 100."""
    if (percent_of(value) or 0) > MOST_PERCENT:
        causes.append(invalid(path, value, "must not be greater than 100%"))


def strategy_shown(strategy: Object) -> Object:
    """Return an update strategy as upstream's errors show it: with the names of Go's fields."""
    rolling = strategy.get("rollingUpdate")
    parts = None if rolling is None else {f"{field[0].upper()}{field[1:]}": value for field, value in rolling.items()}
    return {"Type": strategy.get("type") or "", "RollingUpdate": parts}


def numbers(*fields: str) -> dict[str, Check]:
    """Return checks of fields that are not negative."""
    return dict.fromkeys(fields, not_negative)


def status_check(fields: Iterable[str], bounds: Iterable[tuple[str, str, str]] = ()) -> Struct:
    """Return the check of an object with a status: numbers, and rows (field, bound, text) of pairs.

    The field is at most its bound.
    """
    pairs = tuple(bounds)

    def ordered(path: str, status: Object, causes: Causes) -> None:
        for field, bound, text in pairs:
            value = status.get(field) or 0
            if value > (status.get(bound) or 0):
                causes.append(invalid(f"{path}.{field}", value, text))

    return Struct(status=Struct(also=ordered if pairs else None, fields=numbers(*fields)))


def within(bound: str, *fields: str) -> list[tuple[str, str, str]]:
    """Return rows for `status_check`: each field is at most the field `bound` of the status."""
    return [(field, bound, f"cannot be greater than status.{bound}") for field in fields]


def collision_causes(new: Object, old: Object) -> Causes:
    """Check that the count of collisions only grows."""
    before, after = ((side.get("status") or {}).get("collisionCount") for side in (old, new))
    if before is None or (after is not None and after >= before):
        return []
    return [invalid("status.collisionCount", after or 0, "cannot be decremented")]

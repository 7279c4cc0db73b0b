"""Charges to a quota whose objects are not stored yet. Pure: callers pass the current time in seconds.

An API server charges a quota before it stores the object. Between both, `status.used` is above what the objects use,
and must not be lowered: another request would get the amount twice. Charges and the growth of objects arrive by
different watches in any order, so they are offset against each other. A charge without an object for GRACE_S belongs to
a failed write and is given back.
"""

from collections import deque

from protocols.kube.quantity import ZERO
from protocols.quota.amounts import Amounts, total

GRACE_S = 30.0
"""Longest time from a charge until its object is seen: deadlines of admission and of the store, and a slow watch."""
CREDIT_S = 5.0
"""Longest time by which an object is seen before its charge."""
Entries = deque[tuple[float, Amounts]]
"""Times at which amounts expire, the oldest first."""


class InFlightCharges:
    """Charges without an object, and objects without a charge. Memory is bounded by the writes of GRACE_S."""

    def __init__(self) -> None:
        self._charges: Entries = deque()
        self._credits: Entries = deque()

    def charged(self, amounts: Amounts, now: float) -> None:
        _expire(self._credits, now)
        if left := _offset(self._credits, amounts):
            self._charges.append((now + GRACE_S, left))

    def stored(self, amounts: Amounts, now: float) -> None:
        """Record that an object appeared, or uses more than before. It settles the oldest charges."""
        _expire(self._charges, now)
        if left := _offset(self._charges, amounts):
            self._credits.append((now + CREDIT_S, left))

    def outstanding(self, now: float) -> Amounts:
        """Return the amounts charged for objects that may still appear."""
        _expire(self._charges, now)
        return {name: amount for name, amount in total(*(held for _, held in self._charges)).items() if amount.nanos}

    def next_expiry(self) -> float | None:
        return self._charges[0][0] if self._charges else None


def _expire(entries: Entries, now: float) -> None:
    while entries and entries[0][0] <= now:
        entries.popleft()


def _offset(entries: Entries, amounts: Amounts) -> Amounts:
    """Take the amounts from the entries, the oldest first. Return what they do not cover."""
    left = {name: amount for name, amount in amounts.items() if amount.nanos > 0}
    for _, held in entries:
        for name in [name for name in left if name in held]:
            part = min(left[name], held[name])
            left[name], held[name] = left[name] - part, held[name] - part
    for _ in range(len(entries)):
        expiry, held = entries.popleft()
        if any(amount.nanos for amount in held.values()):
            entries.append((expiry, held))
    return {name: amount for name, amount in left.items() if amount.nanos}


def corrected(used: Amounts, counted: Amounts, outstanding: Amounts) -> Amounts:
    """Return the usage to publish: what was counted, and of the rest of `used` what may be in flight."""
    result = {}
    for name, amount in counted.items():
        spare = used.get(name, ZERO) - amount
        result[name] = amount + min(spare, outstanding.get(name, ZERO)) if spare > ZERO else amount
    return result

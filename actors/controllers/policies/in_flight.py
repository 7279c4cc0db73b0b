"""Charges to a quota whose objects are not stored yet. Pure: callers pass the current time in seconds.

An API server charges a quota before it stores the object. Between both, `status.used` is above what the objects use,
and must not be lowered: another request would get the amount twice. Charges and the growth of objects arrive by
different watches in any order, so they are offset against each other. A charge without an object for GRACE_S belongs to
a failed write and is given back.
"""

from collections import defaultdict, deque

from protocols.kube.quantity import ZERO, Quantity
from protocols.quota.amounts import Amounts

GRACE_S = 30.0
"""Longest time from a charge until its object is seen: deadlines of admission and of the store, and a slow watch."""
CREDIT_S = 5.0
"""Longest time by which an object is seen before its charge."""

Entry = tuple[float, Quantity]
"""Time of expiry and amount."""
Entries = dict[str, list[Entry]]
"""By resource name."""


class InFlightCharges:
    """Charges without an object, and objects without a charge. Memory is bounded by the writes of GRACE_S.

    An object that no charge is for, as one from before the quota, must not pass its credit on for ever: a charge that
    uses it up leaves its own object without one, whose credit ends when the first would have.
    """

    def __init__(self) -> None:
        self._charges, self._credits, self._passed_on = _Expiring(GRACE_S), _Expiring(CREDIT_S), _Expiring(CREDIT_S)

    def charged(self, amounts: Amounts, now: float) -> None:
        missing, taken = self._credits.take(amounts, now)
        self._charges.add(missing, now)
        self._passed_on.extend(taken)

    def stored(self, amounts: Amounts, now: float) -> None:
        """Record that an object appeared, or uses more than before. It settles the oldest charges."""
        missing, _ = self._charges.take(amounts, now)
        missing, old = self._passed_on.take(missing, now)
        self._credits.extend(old)
        self._credits.add(missing, now)

    def outstanding(self, now: float) -> Amounts:
        """Return the amounts charged for objects that may still appear."""
        return self._charges.total(now)

    def next_expiry(self) -> float | None:
        return self._charges.next_expiry()


class _Expiring:
    """Amounts by resource name that expire some seconds after they were added."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._held: defaultdict[str, deque[Entry]] = defaultdict(deque)
        """The oldest first."""

    def add(self, amounts: Amounts, now: float) -> None:
        for name, amount in amounts.items():
            self._live(name, now).append((now + self._seconds, amount))

    def extend(self, entries: Entries) -> None:
        """Add amounts that expire when they would have elsewhere."""
        for name, added in entries.items():
            if added:  # else nothing is to be sorted in
                self._held[name] = deque(sorted((*self._held[name], *added), key=_expiry))

    def take(self, amounts: Amounts, now: float) -> tuple[Amounts, Entries]:
        """Remove the positive amounts, the oldest first; return the part that was not there, and what was."""
        missing, taken = Amounts(), Entries()
        for name, amount in amounts.items():
            taken[name] = self._take(self._live(name, now), amount)
            left = amount - sum((each for _, each in taken[name]), ZERO)
            if left > ZERO:
                missing[name] = left
        return missing, taken

    def total(self, now: float) -> Amounts:
        return {
            name: sum((amount for _, amount in held), ZERO) for name in self._held if (held := self._live(name, now))
        }

    def next_expiry(self) -> float | None:
        return min((held[0][0] for held in self._held.values() if held), default=None)

    def _live(self, name: str, now: float) -> deque[Entry]:
        held = self._held[name]
        while held and held[0][0] <= now:
            held.popleft()
        return held

    def _take(self, held: deque[Entry], amount: Quantity) -> list[Entry]:
        taken = []
        while held and amount > ZERO:
            expiry, oldest = held.popleft()
            if oldest > amount:
                held.appendleft((expiry, oldest - amount))
                oldest = amount
            taken.append((expiry, oldest))
            amount -= oldest
        return taken


def _expiry(entry: Entry) -> float:
    return entry[0]


def corrected(used: Amounts, counted: Amounts, outstanding: Amounts) -> Amounts:
    """Return the usage to publish: what was counted, and of the rest of `used` what may be in flight."""
    result = {}
    for name, amount in counted.items():
        spare = used.get(name, ZERO) - amount
        result[name] = amount + min(spare, outstanding.get(name, ZERO)) if spare > ZERO else amount
    return result

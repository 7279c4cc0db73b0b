"""Expressions that ended an evaluator are not evaluated for a while, longer each time. Pure: callers pass the time."""

from collections import OrderedDict

import msgspec

FIRST_S, LONGEST_S = 1.0, 300.0
FORGIVEN_S = 600.0
"""Time without another end after which an expression is treated as new."""
SIZE = 1024
Key = tuple[str, str]
"""Owner and expression: what one user's data does to an expression is no matter of others."""


class _QuarantinedExpression(msgspec.Struct):
    reason: str
    pause: float
    until: float


class Quarantine:
    """Expressions by owner, SIZE at most; pauses double while an expression goes on doing harm."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, _QuarantinedExpression] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, owner: str, expression: str, reason: str, now: float) -> _QuarantinedExpression:
        key = owner, expression
        before = self._entries.pop(key, None)
        again = before is not None and now < before.until + FORGIVEN_S
        pause = min(LONGEST_S, 2 * before.pause) if before is not None and again else FIRST_S
        entry = self._entries[key] = _QuarantinedExpression(reason, pause, now + pause)
        if len(self._entries) > SIZE:
            self._entries.popitem(last=False)
        return entry

    def banned(self, owner: str, now: float) -> dict[str, tuple[str, float]]:
        """Return the expressions of an owner that wait, each with the error and the seconds that are left."""
        return {
            expression: (_text(entry), entry.until - now)
            for (whose, expression), entry in self._entries.items()
            if whose == owner and now < entry.until
        }


def _text(entry: _QuarantinedExpression) -> str:
    return f"the expression was ended because it {entry.reason}; it is not evaluated again for {entry.pause:.0f} s"

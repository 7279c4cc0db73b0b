"""Count rejections by reason, with the first examples of each."""

from protocols.dra.diagnosis.types import MAX_EXAMPLES, MAX_GROUPS, Group, Rejection

MAX_REASONS = 256
"""Distinct reasons counted; attribute values in error texts could make more."""


class RejectionTally:
    """Bounded: reasons past MAX_REASONS count as their rule alone."""

    def __init__(self) -> None:
        self._counts: dict[Rejection, int] = {}
        self._examples: dict[Rejection, list[str]] = {}

    def add(self, rejection: Rejection, example: str) -> None:
        if rejection not in self._counts and len(self._counts) >= MAX_REASONS:
            rejection = Rejection(rejection.rule, "other reasons")
        self._counts[rejection] = self._counts.get(rejection, 0) + 1
        examples = self._examples.setdefault(rejection, [])
        if len(examples) < MAX_EXAMPLES:
            examples.append(example)

    def groups(self) -> tuple[Group, ...]:
        """Return the most frequent first; the rest is summed up in the last one."""
        ranked = sorted(self._counts, key=lambda each: (-self._counts[each], each))
        shown, rest = ranked[:MAX_GROUPS], ranked[MAX_GROUPS:]
        found = [Group(*each, self._counts[each], tuple(self._examples[each])) for each in shown]
        if rest:
            count = sum(self._counts[each] for each in rest)
            found.append(Group("other", f"{len(rest)} other reasons", count, tuple(self._examples[rest[0]])))
        return tuple(found)

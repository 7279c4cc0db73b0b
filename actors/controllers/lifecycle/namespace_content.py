"""Objects left in a terminating namespace, and the conditions that report them. Pure.

Upstream: pkg/controller/namespace/deletion. Users find there what keeps a namespace from ending.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from protocols.kinds.table import Resource
from protocols.kube.meta import Object

PAGE = 500
"""Objects of a kind that are read for their finalizers."""
DISCOVERY, PARSING = "NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure"
FAILURE, CONTENT, FINALIZERS = (
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
)
FINE = {
    DISCOVERY: ("ResourcesDiscovered", "All resources successfully discovered"),
    PARSING: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    FAILURE: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    CONTENT: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""Reason and message of each condition while it is False."""
MAX_MESSAGE = 4096


class Remaining(msgspec.Struct):
    """Objects that are left after the deletion was asked for."""

    objects: Counter[str] = msgspec.field(default_factory=Counter)
    """By `PLURAL.GROUP`."""
    finalizers: Counter[str] = msgspec.field(default_factory=Counter)
    errors: list[str] = msgspec.field(default_factory=list)

    def add(self, resource: Resource, page: Object) -> None:
        """Count the first page of a list; the API says how many follow."""
        items: Sequence[Object] = page.get("items") or ()
        more = int((page.get("metadata") or {}).get("remainingItemCount") or 0)
        if items:
            self.objects[f"{resource.plural}.{resource.group}"] = len(items) + more
        for item in items:
            self.finalizers.update((item.get("metadata") or {}).get("finalizers") or ())

    def faults(self) -> dict[str, tuple[str, str]]:
        """Return reason and message of the conditions that are True."""
        conditions = {}
        if self.errors:
            text = (
                f"Failed to delete all resource types, {len(self.errors)} remaining: {', '.join(sorted(self.errors))}"
            )
            conditions[FAILURE] = ("ContentDeletionFailed", text)
        if self.objects:
            left = ", ".join(f"{kind} has {count} resource instances" for kind, count in sorted(self.objects.items()))
            conditions[CONTENT] = ("SomeResourcesRemain", f"Some resources are remaining: {left}")
        if self.finalizers:
            held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(self.finalizers.items()))
            conditions[FINALIZERS] = (
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {held}",
            )
        return conditions


def ending_conditions(namespace: Object, remaining: Remaining, now: str) -> list[Object] | None:
    """Return the conditions of a namespace that ends, with those of others; None if nothing changed."""
    before: list[Object] = list((namespace.get("status") or {}).get("conditions") or ())
    known: Mapping[str, Object] = {str(condition.get("type")): condition for condition in before}
    faults = remaining.faults()
    conditions = [_condition(kind, faults.get(kind), known.get(kind) or {}, now) for kind in FINE]
    if all(condition == known.get(condition["type"]) for condition in conditions):
        return None
    return [*(condition for condition in before if condition.get("type") not in FINE), *conditions]


def _condition(kind: str, fault: tuple[str, str] | None, known: Object, now: str) -> Object:
    reason, message = fault or FINE[kind]
    status = "True" if fault else "False"
    since = known.get("lastTransitionTime") if known.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:MAX_MESSAGE],
        "lastTransitionTime": since or now,
    }

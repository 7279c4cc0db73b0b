"""Decide which definition is granted the names it requests. Pure: replicated definitions in, a status out.

Every process decides concurrently, and at most one decision for a name is stored. A definition waits while another one
holds one of its names, or while one with a lower revision waits for it; a status is stored only if its definition still
current the revision it was decided on. A process that sees a definition at a revision sees all lower ones: of two that
request one name, the one with the higher revision is never accepted on a view in which the other waits or holds it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from protocols.kinds.custom.definitions.definition import CLEANUP, Names, read_names, written_names
from protocols.kinds.custom.definitions.rules import APPROVAL, approval, is_protected
from protocols.kube.custom import condition
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text
from protocols.kube.times import now

APPROVALS = {
    "approved": "ApprovedAnnotation",
    "bypassed": "UnapprovedAnnotation",
    "missing": "MissingAnnotation",
    "invalid": "InvalidAnnotation",
}


class Taken(msgspec.Struct, frozen=True):
    """Names in use within one group."""

    words: frozenset[str] = frozenset()
    """Plurals, singulars and short names: the words by which clients refer to a resource."""
    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ObservedDefinition:
    """A definition at the revision `rv`, with names requested by its spec and accepted by its status."""

    obj: Object
    rv: int
    requested: Names = field(init=False)
    current: Names = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "requested", read_names(at(self.obj, "spec", "names")))
        object.__setattr__(self, "current", read_names(at(self.obj, "status", "acceptedNames")))

    @property
    def group(self) -> str:
        return text(self.obj, "spec", "group")

    @property
    def settled(self) -> bool:
        """True if all requested names are accepted and the status reports it: no other definition can change that.

        Never true in a protected group, whose condition follows an annotation.
        """
        good = all(condition(self.obj, kind) == "True" for kind in ("NamesAccepted", "Established"))
        changes = self.waits or at(self.obj, "metadata", "deletionTimestamp") or is_protected(self.group)
        return good and not changes

    @property
    def waits(self) -> bool:
        return self.requested != self.current


def taken(names: Iterable[Names]) -> Taken:
    """Return all names that a group's definitions hold."""
    words, kinds = set[str](), set[str]()
    for name in names:
        words |= {name.plural, name.singular, *name.short} - {""}
        kinds |= {name.kind, name.list_kind} - {""}
    return Taken(frozenset(words), frozenset(kinds))


def new_status(
    one: ObservedDefinition, definitions: Iterable[ObservedDefinition], built_in: Mapping[str, Taken]
) -> Object | None:
    """Return the status to store, or None if it is stored already.

    `built_in` holds the names of the built-in resources by group.
    """
    others = [seen for seen in definitions if seen.group == one.group and seen.obj is not one.obj]
    ahead = [seen.requested for seen in others if seen.waits and seen.rv < one.rv]
    held = taken([*(seen.current for seen in others), *ahead])
    fixed = built_in.get(one.group, Taken())
    held = Taken(held.words | fixed.words, held.kinds | fixed.kinds)
    names, fault = accepted(one.requested, one.current, held)
    status = {**(one.obj.get("status") or {}), "acceptedNames": written_names(names)}
    status["conditions"] = _conditions(one.obj, fault)
    return None if status == one.obj.get("status") else status


def accepted(requested: Names, current: Names, held: Taken) -> tuple[Names, tuple[str, str]]:
    """Return the accepted names and (reason, message) of the last conflict, empty strings if there is none."""
    names, fault = {}, ("", "")
    for name, reason, others in (
        ("plural", "PluralConflict", held.words),
        ("singular", "SingularConflict", held.words),
        ("short", "ShortNamesConflict", held.words),
        ("kind", "KindConflict", held.kinds),
        ("list_kind", "ListKindConflict", held.kinds),
    ):
        wanted = getattr(requested, name)
        clash = [word for word in (wanted if isinstance(wanted, tuple) else (wanted,)) if word in others]
        names[name] = getattr(current, name) if clash else wanted
        if clash:
            fault = reason, _clashes(clash)
    return Names(categories=requested.categories, **names), fault


def _clashes(words: list[str]) -> str:
    detail = ", ".join(f'"{word}" is already in use' for word in words)
    return detail if len(words) == 1 else f"[{detail}]"


def _conditions(obj: Object, fault: tuple[str, str]) -> list[Object]:
    before = {text(entry, "type"): entry for entry in items(obj, "status", "conditions")}
    reason, message = fault if fault[0] else ("NoConflicts", "no conflicts found")
    wanted = [_condition("NamesAccepted", not fault[0], reason, message)]
    if text(before.get("Established"), "status") == "True":
        wanted.append(before["Established"])
    elif fault[0]:
        wanted.append(_condition("Established", False, "NotAccepted", "not all names are accepted"))
    else:
        text_ = "the initial names have been accepted"
        wanted.append(_condition("Established", True, "InitialNamesAccepted", text_))
    wanted += _more(obj)
    mine = {entry["type"] for entry in wanted}
    kept = [other for kind, other in before.items() if kind not in mine]
    return [_same_or_new(before.get(entry["type"]), entry) for entry in wanted] + kept


def _more(obj: Object) -> list[Object]:
    conditions = []
    if is_protected(text(obj, "spec", "group")):
        state, detail = approval(text(obj, "metadata", "annotations", APPROVAL))
        kind = "KubernetesAPIApprovalPolicyConformant"
        conditions.append(_condition(kind, state == "approved", APPROVALS[state], detail))
    if at(obj, "metadata", "deletionTimestamp") and CLEANUP in (at(obj, "metadata", "finalizers") or ()):
        message = "CustomResource deletion is in progress"
        conditions.append(_condition("Terminating", True, "InstanceDeletionInProgress", message))
    return conditions


def _condition(kind: str, holds: bool, reason: str, message: str) -> Object:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def _same_or_new(before: Object | None, after: Object) -> Object:
    """Return the new condition; lastTransitionTime is preserved while the status is the same."""
    if before is None or before.get("status") != after["status"]:
        return {"lastTransitionTime": now(), **after}
    return {**after, "lastTransitionTime": before.get("lastTransitionTime")}

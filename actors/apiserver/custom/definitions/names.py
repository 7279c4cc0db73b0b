"""Which definition gets the names it asks for. Pure: the definitions as a replica shows them go in, a status comes out.

Every process decides, at the same time, and at most one decision for a name is stored. A definition waits while another
holds a name of it, or waits for one with a lower revision; a status is stored only if its definition still has the
revision it was decided on. Whoever sees a definition at a revision sees all lower ones: of two that want one name, the
one with the higher revision is never accepted on a view in which the other waits or holds it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from actors.apiserver.api.objects import Obj, at, items, text
from actors.apiserver.custom.definitions.definition import CLEANUP, Names, read_names, written_names
from actors.apiserver.custom.definitions.rules import APPROVAL, approval, is_protected
from protocols.kube.custom import condition

APPROVALS = {
    "approved": "ApprovedAnnotation",
    "bypassed": "UnapprovedAnnotation",
    "missing": "MissingAnnotation",
    "invalid": "InvalidAnnotation",
}


class Taken(msgspec.Struct, frozen=True):
    """Names of others in one group, and who has them."""

    words: frozenset[str] = frozenset()
    """Plurals, singulars, short names: what clients say to name a resource."""
    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Seen:
    """A definition at a revision."""

    obj: Obj
    rv: int
    asked: Names = field(init=False)
    has: Names = field(init=False)
    """Accepted so far."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "asked", read_names(at(self.obj, "spec", "names")))
        object.__setattr__(self, "has", read_names(at(self.obj, "status", "acceptedNames")))

    @property
    def group(self) -> str:
        return text(self.obj, "spec", "group")

    @property
    def settled(self) -> bool:
        """It has all it asks for and its status says so: nothing that others do changes that."""
        good = all(condition(self.obj, kind) == "True" for kind in ("NamesAccepted", "Established"))
        return good and not self.waits and not at(self.obj, "metadata", "deletionTimestamp")

    @property
    def waits(self) -> bool:
        return self.asked != self.has


def taken(names: Iterable[Names]) -> Taken:
    words, kinds = set[str](), set[str]()
    for each in names:
        words |= {each.plural, each.singular, *each.short} - {""}
        kinds |= {each.kind, each.list_kind} - {""}
    return Taken(frozenset(words), frozenset(kinds))


def new_status(one: Seen, all_seen: Iterable[Seen], built_in: Mapping[str, Taken]) -> Obj | None:
    """The status to store, None when it stands already. `built_in`: names of the table's own rows by group."""
    others = [seen for seen in all_seen if seen.group == one.group and seen.obj is not one.obj]
    ahead = [seen.asked for seen in others if seen.waits and seen.rv < one.rv]
    held = taken([*(seen.has for seen in others), *ahead])
    fixed = built_in.get(one.group, Taken())
    held = Taken(held.words | fixed.words, held.kinds | fixed.kinds)
    names, fault = accepted(one.asked, one.has, held)
    status = {**(one.obj.get("status") or {}), "acceptedNames": written_names(names)}
    status["conditions"] = _conditions(one.obj, fault)
    return None if status == one.obj.get("status") else status


def accepted(asked: Names, has: Names, held: Taken) -> tuple[Names, tuple[str, str]]:
    """What is accepted now, and (reason, message) of the last refusal, empty if there is none."""
    made, fault = {}, ("", "")
    for name, reason, others in (
        ("plural", "PluralConflict", held.words),
        ("singular", "SingularConflict", held.words),
        ("short", "ShortNamesConflict", held.words),
        ("kind", "KindConflict", held.kinds),
        ("list_kind", "ListKindConflict", held.kinds),
    ):
        wanted = getattr(asked, name)
        clash = [word for word in (wanted if isinstance(wanted, tuple) else (wanted,)) if word in others]
        made[name] = getattr(has, name) if clash else wanted
        if clash:
            fault = reason, _clashes(clash)
    return Names(categories=asked.categories, **made), fault


def _clashes(words: list[str]) -> str:
    told = ", ".join(f'"{word}" is already in use' for word in words)
    return told if len(words) == 1 else f"[{told}]"


def _conditions(obj: Obj, fault: tuple[str, str]) -> list[Obj]:
    before = {text(each, "type"): each for each in items(obj, "status", "conditions")}
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
    mine = {each["type"] for each in wanted}
    kept = [each for kind, each in before.items() if kind not in mine]
    return [_same_or_new(before.get(each["type"]), each) for each in wanted] + kept


def _more(obj: Obj) -> list[Obj]:
    made = []
    if is_protected(text(obj, "spec", "group")):
        state, told = approval(text(obj, "metadata", "annotations", APPROVAL))
        kind = "KubernetesAPIApprovalPolicyConformant"
        made.append(_condition(kind, state == "approved", APPROVALS[state], told))
    if at(obj, "metadata", "deletionTimestamp") and CLEANUP in (at(obj, "metadata", "finalizers") or ()):
        message = "CustomResource deletion is in progress"
        made.append(_condition("Terminating", True, "InstanceDeletionInProgress", message))
    return made


def _condition(kind: str, holds: bool, reason: str, message: str) -> Obj:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def _same_or_new(before: Obj | None, after: Obj) -> Obj:
    """The time says when the status changed, so it stays while that does."""
    if before is None or before.get("status") != after["status"]:
        return {"lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), **after}
    return {**after, "lastTransitionTime": before.get("lastTransitionTime")}

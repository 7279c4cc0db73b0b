"""Entries of managedFields: read, merged, updated by a write."""

from typing import Any

import msgspec

from actors.apiserver.api.objects import Obj, now
from actors.apiserver.api.schemas.shape import Shape
from actors.apiserver.writes.ownership.compare import Changes, changes, grown
from actors.apiserver.writes.ownership.fields import SELF, Fields, minus, union
from protocols.kube.jsons import read_json

APPLY, UPDATE = "Apply", "Update"
MAX_UPDATERS = 10
MAX_DEPTH = 64
ANCIENT = "ancient-changes"
"""Under this name upstream, too, sums up the updaters that are too many."""

Entry = dict[str, Any]
Entries = list[Entry]
"""Never changed in place: they may be part of a shared object."""


class Author(msgspec.Struct, frozen=True):
    """Who writes, and how. Versions do not part appliers from themselves, only updaters."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""

    def is_of(self, entry: Entry) -> bool:
        if entry["manager"] != self.manager or entry["operation"] != self.operation:
            return False
        if entry.get("subresource", "") != self.subresource:
            return False
        return self.operation == APPLY or entry["apiVersion"] == self.api_version

    def entry(self, fields: Fields, time: str) -> Entry:
        made: Entry = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        if self.subresource:
            made["subresource"] = self.subresource
        return made


def fields_of(entries: Entries, author: Author) -> Fields:
    found = next((entry for entry in entries if author.is_of(entry)), None)
    return found["fieldsV1"] if found else {}


def with_fields(entries: Entries, author: Author, fields: Fields) -> Entries:
    """The author's entry replaced (an empty one goes), in upstream's order, and not more of them than MAX_UPDATERS."""
    others = [entry for entry in entries if not author.is_of(entry)]
    made = [*others, author.entry(fields, now())] if fields else others
    if len(made) > 1:
        made.sort(key=_order)
    return made if len(made) <= MAX_UPDATERS else _bounded(made)


def _order(entry: Entry) -> tuple[str, str, str, str, str]:
    return (
        entry["operation"],
        entry.get("time") or "",
        entry["manager"],
        entry["apiVersion"],
        entry.get("subresource") or "",
    )


def _bounded(entries: Entries) -> Entries:
    updaters = [entry for entry in entries if entry["operation"] == UPDATE]
    if len(updaters) <= MAX_UPDATERS:
        return entries
    old = updaters[: len(updaters) - MAX_UPDATERS + 1]
    fields: Fields = {}
    for entry in old:
        fields = union(fields, entry["fieldsV1"])
    summed = {**old[-1], "manager": ANCIENT, "fieldsV1": fields}
    summed.pop("subresource", None)
    return sorted([summed, *(entry for entry in entries if entry not in old)], key=_order)


def sent_entries(value: Any) -> Entries | None:
    """What a client wrote into managedFields, in our form; None = nothing usable, so what is stored stays. One empty
    entry means: forget all."""
    if not isinstance(value, list) or not value:
        return None
    if value == [{}]:
        return []
    made = [_sent(entry) for entry in value]
    return None if None in made else sorted((entry for entry in made if entry), key=_order)


def _sent(entry: Any) -> Entry | None:
    if not isinstance(entry, dict) or entry.get("operation") not in (APPLY, UPDATE):
        return None
    if entry.get("fieldsType", "FieldsV1") != "FieldsV1" or not isinstance(entry.get("fieldsV1", {}), dict):
        return None
    if not all(isinstance(entry.get(key, ""), str) for key in ("manager", "apiVersion", "subresource", "time")):
        return None
    try:
        fields = _normal(entry.get("fieldsV1") or {})
    except (ValueError, msgspec.DecodeError):
        return None
    author = Author(
        entry.get("manager", ""), entry["operation"], entry.get("apiVersion", ""), entry.get("subresource", "")
    )
    return author.entry(fields, entry.get("time") or now())


def _normal(tree: Fields, depth: int = 0) -> Fields:
    """Keys of lists as we write them. Raises ValueError for what is no tree of fields."""
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    made = {}
    for element, node in tree.items():
        if not isinstance(node, dict) or (element != SELF and element[:2] not in ("f:", "k:", "v:", "i:")):
            raise ValueError(element)
        made[_normal_element(element)] = _normal(node, depth + 1)
    return {} if set(made) == {SELF} else made


def _normal_element(element: str) -> str:
    if element[:2] not in ("k:", "v:"):
        return element
    value = read_json(element[2:])
    if element[0] == "k" and not isinstance(value, dict):
        raise ValueError(element)
    return element[:2] + msgspec.json.encode(value, order="sorted").decode()


def tracked(old: Obj, new: Obj, shape: Shape, author: Author, entries: Entries) -> Entries:
    """Entries after `author` made `new` of `old` ({} before creation)."""
    if not (old or entries):
        fields = grown(new, shape)
        return [author.entry(fields, now())] if fields else []
    done = changes(old, new, shape)
    if not (done.written or done.removed):
        return entries
    mine = union(fields_of(entries, author), done.written)
    return with_fields(taken(entries, author, done), author, minus(mine, done.removed))


def taken(entries: Entries, author: Author, done: Changes) -> Entries:
    """What others owned until somebody changed it."""
    touched = union(done.written, done.removed)
    return [made for entry in entries if (made := entry if author.is_of(entry) else _less(entry, touched))]


def _less(entry: Entry, touched: dict[str, object]) -> Entry | None:
    fields = minus(entry["fieldsV1"], touched)
    if not fields:
        return None
    return entry if fields == entry["fieldsV1"] else {**entry, "fieldsV1": fields}

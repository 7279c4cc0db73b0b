"""Entries of managedFields: read, merged, updated by a write."""

from typing import Any

import msgspec

from actors.apiserver.writes.ownership.compare import Changes, changes, fields_of_new
from actors.apiserver.writes.ownership.fields import SELF, Fields, minus, union
from protocols.kinds.shapes.shape import Shape
from protocols.kube.jsons import read_json
from protocols.kube.meta import Object
from protocols.kube.times import now

APPLY, UPDATE = "Apply", "Update"
MAX_UPDATERS = 10
MAX_DEPTH = 64
ANCIENT = "ancient-changes"
"""Upstream's manager name for the joined entries of the oldest updaters."""

Entry = dict[str, Any]
Entries = list[Entry]
"""Never changed in place: entries may be part of a shared object."""


class Author(msgspec.Struct, frozen=True):
    """A field manager and its operation. An applier is the same in every API version, an updater is not."""

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
        entry: Entry = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def fields_of(entries: Entries, author: Author) -> Fields:
    """Return the fields that an author owns; empty if it has no entry."""
    own = next((entry for entry in entries if author.is_of(entry)), None)
    return own["fieldsV1"] if own else {}


def with_fields(entries: Entries, author: Author, fields: Fields, time: str = "") -> Entries:
    """Replace the author's entry; an empty one is removed.

    `time` is that of the entry, by default the current one.
    """
    others = [entry for entry in entries if not author.is_of(entry)]
    return in_order([*others, author.entry(fields, time or now())] if fields else others)


def in_order(entries: Entries) -> Entries:
    """Return the entries in upstream's order, with at most MAX_UPDATERS updaters."""
    ordered = sorted(entries, key=_order) if len(entries) > 1 else entries
    return ordered if len(ordered) <= MAX_UPDATERS else _bounded(ordered)


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
    """Normalize managedFields that a client sent. One empty entry removes all.

    Returns None for unusable ones: then the stored entries remain.
    """
    if not isinstance(value, list) or not value:
        return None
    if value == [{}]:
        return []
    normal = [_sent(entry) for entry in value]
    return None if None in normal else sorted((entry for entry in normal if entry), key=_order)


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
    """Return a tree with list keys in our encoding. Raises ValueError for an invalid tree."""
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    normal = {}
    for element, node in tree.items():
        if not isinstance(node, dict) or (element != SELF and element[:2] not in ("f:", "k:", "v:", "i:")):
            raise ValueError(element)
        normal[_normal_element(element)] = _normal(node, depth + 1)
    return {} if set(normal) == {SELF} else normal


def _normal_element(element: str) -> str:
    if element[:2] not in ("k:", "v:"):
        return element
    value = read_json(element[2:])
    if element[0] == "k" and not isinstance(value, dict):
        raise ValueError(element)
    return element[:2] + msgspec.json.encode(value, order="sorted").decode()


def tracked(old: Object, new: Object, shape: Shape, author: Author, entries: Entries) -> Entries:
    """Return the entries after `author` changed `old` ({} before creation) to `new`."""
    if not (old or entries):
        fields = fields_of_new(new, shape)
        return [author.entry(fields, now())] if fields else []
    done = changes(old, new, shape)
    if not (done.written or done.removed):
        return entries
    mine = union(fields_of(entries, author), done.written)
    time = "" if done.written else _time_of(entries, author)
    return with_fields(release_changed(entries, author, done), author, minus(mine, done.removed), time)


def _time_of(entries: Entries, author: Author) -> str:
    """Return the time of the author's entry, which stays if a write takes no field."""
    return next((str(entry.get("time") or "") for entry in entries if author.is_of(entry)), "")


def release_changed(entries: Entries, author: Author, done: Changes) -> Entries:
    """Return the entries without fields of others that `author` has changed."""
    touched = union(done.written, done.removed)
    return [rest for entry in entries if (rest := entry if author.is_of(entry) else _less(entry, touched))]


def _less(entry: Entry, touched: dict[str, object]) -> Entry | None:
    fields = minus(entry["fieldsV1"], touched)
    if not fields:
        return None
    return entry if fields == entry["fieldsV1"] else {**entry, "fieldsV1": fields}

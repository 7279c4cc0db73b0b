"""managedFields of a write: its author, and the owners of every field afterwards."""

from collections.abc import Callable
from typing import Any

import msgspec

from actors.apiserver.api.errors import BadRequest, Conflict
from actors.apiserver.api.request.query import WriteOptions
from actors.apiserver.api.request.target import Target
from actors.apiserver.writes.metadata import FIELD
from actors.apiserver.writes.ownership.apply import (
    Applied,
    ConfigInvalid,
    OwnedByOthers,
    applied,
    merged,
    without_nulls,
)
from actors.apiserver.writes.ownership.compare import owned
from actors.apiserver.writes.ownership.entries import APPLY, UPDATE, Author, Entries, sent_entries, tracked
from actors.apiserver.writes.ownership.fields import Fields, shown
from actors.apiserver.writes.validation import body_kind
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.registry import kind_shape
from protocols.kinds.shapes.shape import Shape
from protocols.kube.jsons import read_json
from protocols.kube.meta import LAST_APPLIED, Object
from protocols.kube.objects import at

MANAGER = "kubectl"


def only_last_applied(conflict: OwnedByOthers, manager: str, live: Object, shape: Shape) -> bool:
    """Return True if kubectl owned all conflicting fields before, by its last-applied annotation.

    Such an apply migrates from client-side to server-side apply and is no conflict.
    """
    text = at(live, "metadata", "annotations", LAST_APPLIED)
    if manager != MANAGER or not isinstance(text, str):
        return False
    try:
        before = read_json(text)
    except msgspec.DecodeError:
        return False
    if not isinstance(before, dict):
        return False
    mine = owned(without_nulls(before), shape)
    own = ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")
    return all(path == own or _within(mine, path) for _, path in conflict.fields)


def _within(fields: Fields, path: tuple[str, ...]) -> bool:
    node: Fields | None = fields
    for element in path:
        node = (node or {}).get(element)
        if node is None:
            return False
    return True


Owners = Callable[[Object, Object, object], Entries]
"""Return managedFields from the new object, the stored one ({} if none) and the managedFields that were sent."""


def _author(target: Target, options: WriteOptions, operation: str = UPDATE) -> Author:
    manager = options.manager or options.agent or "unknown"
    return Author(manager, operation, body_kind(target.resource, target.subresource).api_version, target.subresource)


def updaters(target: Target, options: WriteOptions) -> Owners:
    """Return a function that computes owners after a create, an update or a patch."""
    by = _author(target, options)

    def owners(new: Object, old: Object, sent: object) -> Entries:
        stored: Entries = (old["metadata"].get(FIELD) if old else None) or []
        entries = stored
        if sent and sent != stored and not target.subresource:
            usable = sent_entries(sent)
            entries = stored if usable is None else usable
        shape = shape_of(target)
        if shape is None or (old and not entries):
            return entries
        return tracked(old, _written(target, new, old), shape, by, entries)

    return owners


def _written(target: Target, new: Object, old: Object) -> Object:
    """Return the object with only the changes that this endpoint writes: the other ones are reset."""
    strategy = target.resource.strategy
    if target.subresource == "status":
        status = new.get("status")
        if isinstance(status, dict) and strategy.untracked_status:
            status = _reset(status, old.get("status") or {}, strategy.untracked_status)
        metadata = _reset(new["metadata"], old["metadata"], strategy.status_keeps)
        return {**old, "metadata": metadata, "status": status}
    if target.subresource or not (strategy.has_status or strategy.untracked):
        return new
    return _reset(new, old, (*strategy.untracked, "status"))


def _reset(new: Object, old: Object, fields: tuple[str, ...]) -> Object:
    """Return an object with these fields as they were before the write."""
    changed = [field for field in fields if new.get(field) != old.get(field)]
    if not changed:
        return new
    rest = {field: value for field, value in new.items() if field not in changed}
    return {**rest, **{field: old[field] for field in changed if field in old}}


def stored_owners(new: Object, old: Object, sent: object) -> Entries:
    """Keep the stored owners, for writes of the server itself."""
    return (old["metadata"].get(FIELD) if old else None) or []


SERVER = "kube-apiserver"


def own_status(resource: Served, new: Object, old: Object) -> Object:
    """Return an object whose status the server itself has changed, with the managedFields of that write."""
    entries = stored_owners(new, old, None)
    if entries and resource.shape is not None and new.get("status") != old.get("status"):
        by = Author(SERVER, UPDATE, resource.api_version, "status")
        new["metadata"] = {**new["metadata"], FIELD: tracked(old, new, resource.shape, by, entries)}
    return new


def set_owners(obj: Object, entries: Entries) -> None:
    """Set metadata.managedFields; without entries there is none."""
    if entries:
        obj["metadata"][FIELD] = entries
    else:
        obj["metadata"].pop(FIELD, None)


def shape_of(target: Target) -> Shape | None:
    """Return the schema of the object whose fields this endpoint tracks."""
    return kind_shape("autoscaling", "v1", "Scale") if target.subresource == "scale" else target.resource.shape


def apply(target: Target, config: Object, options: WriteOptions, live: Object) -> Applied:
    """Apply `config` to the object `live`, which is {} before its creation. Raises BadRequest, Conflict."""
    shape, by = shape_of(target), _author(target, options, APPLY)
    if shape is None:
        raise BadRequest(f"server-side apply needs a schema, and none is known of {target.resource.full_name}")
    try:
        config = without_nulls(config)
        wanted = _relevant(target, config)
    except RecursionError:
        raise BadRequest("the configuration is nested too deeply") from None
    entries = (live["metadata"].get(FIELD) if live else None) or []
    try:
        try:
            result = applied(live, wanted, shape, entries, by, bool(options.force))
        except OwnedByOthers as conflict:
            if not only_last_applied(conflict, by.manager, live, shape):
                raise
            result = applied(live, wanted, shape, entries, by, force=True)
        return _with_untracked(target, config, result, shape)
    except ConfigInvalid as error:
        subject = f"{target.namespace}/{target.name}" if target.namespace else target.name
        kind = f"{target.resource.api_version}, Kind={target.resource.kind}"
        raise BadRequest(f"failed to create typed patch object ({subject}; {kind}): {error}") from None
    except OwnedByOthers as conflict:
        raise _conflict(conflict) from None


def _with_untracked(target: Target, config: Object, result: Applied, shape: Shape) -> Applied:
    """Merge what the status endpoint writes and nobody owns there, such as conditions of a signing request."""
    status, fields = config.get("status"), target.resource.strategy.untracked_status
    if target.subresource != "status" or not fields or not isinstance(status, dict):
        return result
    return Applied(merged(result.obj, {"status": _only(status, *fields)}, shape), result.entries)


def _relevant(target: Target, config: Object) -> Object:
    """Return the part of a configuration that this endpoint writes."""
    strategy, part = target.resource.strategy, target.subresource
    if part == "scale":
        return _only(config, "apiVersion", "kind", "spec")
    if part in ("status", "approval"):
        others = strategy.untracked_status if part == "status" else ("certificate",)
        reset = {"metadata": strategy.status_keeps, "status": others}
        written = _only(config, "apiVersion", "kind", *reset)
        rest = {field: _without(written.get(field), fields) for field, fields in reset.items() if field in written}
        return {field: value for field, value in {**written, **rest}.items() if value or not written.get(field)}
    if not part and (strategy.has_status or strategy.untracked):
        return {key: value for key, value in config.items() if key not in (*strategy.untracked, "status")}
    return config


def _only(config: Object, *fields: str) -> Object:
    return {field: config[field] for field in fields if field in config}


def _without(value: Any, fields: tuple[str, ...]) -> Any:
    return {key: part for key, part in value.items() if key not in fields} if isinstance(value, dict) else value


def _conflict(conflict: OwnedByOthers) -> Conflict:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_manager(entry)}", "field": shown(path)}
        for entry, path in conflict.fields
    ]
    return Conflict(_message(conflict), {"causes": causes})


def _message(conflict: OwnedByOthers) -> str:
    if len(conflict.fields) == 1:
        entry, path = conflict.fields[0]
        return f"Apply failed with 1 conflict: conflict with {_manager(entry)}: {shown(path)}"
    by_manager: dict[str, list[str]] = {}
    for entry, path in conflict.fields:
        by_manager.setdefault(_manager(entry), []).append(shown(path))
    lines = [f"conflicts with {name}:\n" + "\n".join(f"- {p}" for p in listed) for name, listed in by_manager.items()]
    return f"Apply failed with {len(conflict.fields)} conflicts: " + "\n".join(lines)


def _manager(entry: dict[str, object]) -> str:
    text = f'"{entry["manager"]}"'
    if entry.get("subresource"):
        text += f' with subresource "{entry["subresource"]}"'
    return f"{text} using {entry['apiVersion']}" if entry["operation"] == UPDATE else text

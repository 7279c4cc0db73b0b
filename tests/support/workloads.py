"""Workloads made as the API server makes them: defaults, what is prepared, zero values."""

import json
from typing import Any

from actors.apiserver.table import TABLE
from protocols.kinds.check.causes import Cause
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.clean import complete

Object = dict[str, Any]
UID = "0f5c"
LABELS = {"app": "a"}
CONTAINER = {"name": "c", "image": "busybox:1"}
TEMPLATE: Object = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
ONCE: Object = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
SELECTED: Object = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
JOB: Object = {"template": ONCE}
CRON: Object = {"schedule": "0 * * * *", "jobTemplate": {"spec": JOB}}


def _copied(value: Object) -> Object:
    """Return a copy of JSON whose parts are all its own, as a decoded body's are."""
    copied: Object = json.loads(json.dumps(value))
    return copied


def row_of(plural: str) -> Served:
    return TABLE.of(plural)


def body(plural: str, spec: Object, **metadata: Any) -> Object:
    row = row_of(plural)
    held = {"name": "x", "namespace": "ns", "uid": UID, "resourceVersion": "7", **metadata}
    return _copied({"apiVersion": row.api_version, "kind": row.kind, "metadata": held, "spec": spec})


def created(plural: str, spec: Object, **metadata: Any) -> Object:
    row, made = row_of(plural), body(plural, spec, **metadata)
    row.strategy.default(made)
    row.strategy.prepare_create(made)
    complete(made, row.shape)
    return made


def with_path(obj: Object, path: str, value: Any) -> Object:
    """Return a copy with the value at a dotted path; None removes the field."""
    made = part = _copied(obj)
    *steps, last = path.split(".")
    for step in steps:
        part = part.setdefault(step, {})
    if value is None:
        part.pop(last, None)
    else:
        part[last] = _copied(value)
    return made


def shown(causes: list[Cause]) -> list[str]:
    """Return causes as upstream's texts."""
    return [f"{cause.field}: {cause.message}" for cause in causes]


def create_faults(plural: str, spec: Object, **metadata: Any) -> list[str]:
    return shown(row_of(plural).strategy.validate_create(created(plural, spec, **metadata)))


def update_faults(plural: str, new: Object, old: Object) -> list[str]:
    strategy = row_of(plural).strategy
    new = _copied(new)
    strategy.default(new)
    strategy.prepare_update(new, old)
    return shown(strategy.update_causes(new, old))


def status_faults(plural: str, new: Object, old: Object) -> list[str]:
    strategy = row_of(plural).strategy
    new = _copied(new)
    strategy.prepare_status(new, old)
    return shown(strategy.validate_status(new, old))


def cells(plural: str, obj: Object, wide: bool = True) -> dict[str, Any]:
    """Return the cells of a table row by their titles."""
    columns = row_of(plural).columns
    return {column.name: column.cell(obj) for column in columns if wide or not column.priority}
